"""Losses, recurrent layers, embeddings, norms, reductions and casts of PyTorch, on ``xla`` beside PyTorch's CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils import rnn

from tests.scan.call import Call
from tests.scan.torch_tensors import (
    ALL,
    COMPLEX,
    FLOATS,
    INTEGERS,
    definite,
    integers,
    name_of,
    named,
    normal,
    positive,
    unit,
)
from tests.scan.torch_tensors import special as special_numbers
from tests.scan.torch_ways import call

_REDUCTIONS: Final = ("mean", "sum", "none")
_T = torch.tensor


def calls() -> Iterator[Call]:
    names: dict[str, int] = {}
    for one in _all():
        names[one.name] = number = names.get(one.name, 0) + 1
        yield one if number == 1 else replace(one, name=f"{one.name}, {number}")


def _all() -> Iterator[Call]:
    yield from _losses()
    yield from _losses_of_classes()
    yield from _recurrent()
    yield from _embeddings()
    yield from _norms()
    yield from _attention()
    yield from _reductions()
    yield from _casts()
    yield from _transforms()
    yield from _matrices()


def _loss(name: str, arguments: list[Any], options: dict[str, Any]) -> Iterator[Call]:
    function = getattr(functional, name)
    tensors = {k: v for k, v in options.items() if isinstance(v, torch.Tensor)}
    others = {k: v for k, v in options.items() if k not in tensors}
    for reduction in _REDUCTIONS:

        def of(*given: Any, reduction: str = reduction) -> Any:
            count = len(given) - len(tensors)
            named = dict(zip(tensors, given[count:], strict=True))
            return function(*given[:count], **named, **others, reduction=reduction)

        shown = {k: "given" if k in tensors else v for k, v in options.items()}
        of_this = named(name, {"reduction": reduction, **shown})
        yield call(of_this, of, [*arguments, *tensors.values()], times=2)


def _losses() -> Iterator[Call]:
    x, y, z = (normal(6, 5, seed=n, grad=n != 1) for n in range(3))
    for name in ("l1_loss", "mse_loss", "soft_margin_loss"):
        yield from _loss(name, [x, y.sign() if name == "soft_margin_loss" else y], {})
    for beta in (0.0, 0.5, 1.0):
        yield from _loss("smooth_l1_loss", [x, y], {"beta": beta})
    for delta in (0.3, 1.0):
        yield from _loss("huber_loss", [x, y], {"delta": delta})
    p, q = unit(6, 5, seed=3, grad=True), unit(6, 5, seed=4)
    yield from _loss("binary_cross_entropy", [p, q], {})
    yield from _loss("binary_cross_entropy", [p, q], {"weight": positive(5)})
    yield from _loss("binary_cross_entropy", [q.round().requires_grad_(True), q.round()], {})
    yield from _loss("binary_cross_entropy_with_logits", [x, q], {})
    more = {"weight": positive(5), "pos_weight": positive(5, seed=1)}
    yield from _loss("binary_cross_entropy_with_logits", [x, q], more)
    yield from _loss(
        "binary_cross_entropy_with_logits", [(x * 100).detach().requires_grad_(True), q], {}
    )
    for log_target in (False, True):
        target = (q.log() if log_target else q).clone()
        if not log_target:
            target[0, 0] = 0.0
        yield from _loss("kl_div", [x, target], {"log_target": log_target})
    for log_input, full in itertools.product((False, True), (False, True)):
        options = {"log_input": log_input, "full": full}
        yield from _loss("poisson_nll_loss", [positive(6, 5, grad=True), q * 5], options)
    for full in (False, True):
        yield from _loss("gaussian_nll_loss", [x, y, positive(6, 5, grad=True)], {"full": full})
    yield from _loss("hinge_embedding_loss", [x, y.sign()], {"margin": 0.7})
    yield from _loss("margin_ranking_loss", [x, z, y.sign()], {"margin": 0.1})
    yield from _loss("cosine_embedding_loss", [x, z, _T([1, -1, 1, -1, -1, 1])], {"margin": 0.2})
    for p_norm, swap in itertools.product((1.0, 2.0), (False, True)):
        yield from _loss("triplet_margin_loss", [x, y, z], {"p": p_norm, "swap": swap})
    yield from _loss("multilabel_soft_margin_loss", [x, q.round()], {"weight": positive(5)})
    labels = _T(
        [
            [0, 2, -1, 1, 3],
            [1, -1, 0, 0, 0],
            [4, 3, 2, 1, 0],
            [-1] * 5,
            [2, -1, 2, 1, 0],
            [3, 0, -1, 0, 0],
        ]
    )
    yield from _loss("multilabel_margin_loss", [x, labels], {})


def _losses_of_classes() -> Iterator[Call]:
    weight = positive(5)
    target = _T([0, 4, 2, 2, 1, 3])
    for shape, of in (
        ((6, 5), target),
        ((5,), _T(3)),
        ((2, 5, 3), target.reshape(2, 3)),
        ((1, 5, 2, 3), target.reshape(1, 2, 3)),
    ):
        x = normal(*shape, seed=len(shape), grad=True)
        for smoothing, weighted, ignored in itertools.product(
            (0.0, 0.2), (None, weight), (-100, 2)
        ):
            options = {"label_smoothing": smoothing, "weight": weighted, "ignore_index": ignored}
            shown = {k: v for k, v in options.items() if v is not None}
            yield from _loss("cross_entropy", [x, of], {**shown})
            if not smoothing:
                del shown["label_smoothing"]
                yield from _loss(
                    "nll_loss",
                    [
                        functional.log_softmax(x, 0 if len(shape) == 1 else 1)
                        .detach()
                        .requires_grad_(True),
                        of,
                    ],
                    shown,
                )
    for p in (1, 2):
        yield from _loss(
            "multi_margin_loss",
            [normal(6, 5, grad=True), target],
            {"p": p, "margin": 0.7, "weight": weight},
        )
    shares = functional.softmax(normal(6, 5, seed=3), 1)
    yield from _loss(
        "cross_entropy",
        [normal(6, 5, grad=True), shares],
        {"label_smoothing": 0.1, "weight": weight},
    )
    every = torch.full((6,), 2)
    yield from _loss("cross_entropy", [normal(6, 5, grad=True), every], {"ignore_index": 2})
    for blank, infinite, concatenated in itertools.product((0, 3), (False, True), (False, True)):
        x = functional.log_softmax(normal(7, 3, 4), 2).detach().requires_grad_(True)
        targets = _T([[1, 2, 1], [2, 2, 1], [1, 1, 2]])
        lengths = _T([3, 2, 1])
        given = (
            torch.cat([row[:n] for row, n in zip(targets, lengths, strict=True)])
            if concatenated
            else targets
        )
        for reduction, input_lengths in itertools.product(
            _REDUCTIONS, (_T([7, 5, 2]), _T([7, 1, 7]))
        ):
            choices: dict[str, Any] = {
                "blank": blank, "zero_infinity": infinite, "reduction": reduction
            }  # fmt: skip
            name = f"concatenated {concatenated}, lengths {input_lengths.tolist()}"

            def ctc(x: Any, y: Any, n: Any, m: Any, options: Any = choices) -> Any:
                return functional.ctc_loss(x, y, n, m, **options)

            yield call(
                f"{named('ctc_loss', choices)}, {name}", ctc, [x, given, input_lengths, lengths], 1
            )


def _weights(module: nn.Module) -> list[torch.Tensor]:
    return [normal(*p.shape, seed=n, grad=True) * 0.3 for n, p in enumerate(module.parameters())]


def _of_module(module: nn.Module, packed: Any, is_batch_first: bool) -> Callable[..., Any]:
    """The module as a function of its input and weights."""
    names = [name for name, _ in module.named_parameters()]

    def function(x: Any, *weights: Any) -> Any:
        named = dict(zip(names, weights, strict=True))
        given = x
        if packed is not None:
            given = rnn.pack_padded_sequence(x, packed, is_batch_first, enforce_sorted=False)
        result, state = torch.func.functional_call(module, named, (given,))
        if packed is not None:
            result = rnn.pad_packed_sequence(result, is_batch_first)[0]
        return result, state

    return function


def _recurrent() -> Iterator[Call]:
    for kind, layers, both, first in itertools.product(
        ("LSTM", "GRU", "RNN"), (1, 2), (False, True), (False, True)
    ):
        every: list[dict[str, Any]] = [{}, {"bias": False}]
        every += [{"proj_size": 2}] if kind == "LSTM" else []
        every += [{"nonlinearity": "relu"}] if kind == "RNN" else []
        for more, lengths in itertools.product(every, (None, [5, 2, 4])):
            options = {"num_layers": layers, "bidirectional": both, "batch_first": first, **more}
            module = getattr(nn, kind)(3, 4, **options)
            x = normal(*((3, 5, 3) if first else (5, 3, 3)), seed=9, grad=True)
            weights = [w.detach().requires_grad_(True) for w in _weights(module)]
            name = named(kind, {**options, "packed": lengths is not None})
            given = None if lengths is None else _T(lengths)
            yield call(name, _of_module(module, given, first), [x, *weights], times=1)
    for kind in ("LSTMCell", "GRUCell", "RNNCell"):
        cell = getattr(nn, kind)(3, 4)
        weights = [w.detach().requires_grad_(True) for w in _weights(cell)]
        names = [n for n, _ in cell.named_parameters()]

        def step(x: Any, *weights: Any, cell: Any = cell, names: Any = names) -> Any:
            return torch.func.functional_call(cell, dict(zip(names, weights, strict=True)), (x,))

        yield call(kind, step, [normal(5, 3, grad=True), *weights], times=1)


def _embeddings() -> Iterator[Call]:
    table = normal(7, 3, grad=True)
    index = _T([[0, 2, 2], [6, 1, 0]])
    for padding, by_counts in itertools.product((None, 0, -1), (False, True)):
        options = {"padding_idx": padding, "scale_grad_by_freq": by_counts}

        def embedded(i: Any, w: Any, options: Any = options) -> Any:
            return functional.embedding(i, w, **options)

        yield call(named("embedding", options), embedded, [index, table], times=1)
    flat, offsets = _T([0, 2, 2, 6, 1, 0, 3]), _T([0, 3, 3, 5])
    for mode, last, padding, weighted in itertools.product(
        ("sum", "mean", "max"), (False, True), (None, 2), (False, True)
    ):
        if weighted and mode != "sum":
            continue
        bags: dict[str, Any] = {
            "mode": mode, "include_last_offset": last, "padding_idx": padding
        }  # fmt: skip
        ends = torch.cat([offsets, _T([7])]) if last else offsets

        def bag(i: Any, w: Any, o: Any, s: Any, options: Any = bags) -> Any:
            return functional.embedding_bag(i, w, o, per_sample_weights=s, **options)

        shares = normal(7, seed=3, grad=True) if weighted else None
        name = named("embedding_bag", {**bags, "weights": weighted})
        yield call(name, bag, [flat, table, ends, shares], times=1)
        if not last:
            shares = normal(2, 3, seed=3, grad=True) if weighted else None

            def of_rows(i: Any, w: Any, s: Any, mode: str = mode, padding: Any = padding) -> Any:
                return functional.embedding_bag(
                    i, w, mode=mode, per_sample_weights=s, padding_idx=padding
                )

            yield call(f"{name}, rows", of_rows, [index, table, shares], times=1)
    yield call("one_hot", lambda i: functional.one_hot(i, 7), [index])


def _norms() -> Iterator[Call]:
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        times = int(dtype == torch.float32)
        x = normal(4, 6, 5, 3, dtype=dtype, grad=times > 0)
        w, b = (normal(6, seed=n, dtype=dtype, grad=times > 0) for n in (1, 2))
        of = name_of(dtype)
        for training, momentum in itertools.product((True, False), (0.1, 1.0, 0.0)):

            def normed(
                x: Any, w: Any, b: Any, m: Any, v: Any, t: bool = training, a: float = momentum
            ) -> Any:
                y = functional.batch_norm(x, m, v, w, b, t, a)
                return y, m, v

            state = [torch.zeros(6, dtype=dtype), torch.ones(6, dtype=dtype)]
            yield call(
                f"batch_norm, training {training}, momentum {momentum}, {of}",
                normed,
                [x, w, b, *state],
                times,
            )
        for groups in (1, 2, 6):
            yield call(
                f"group_norm, {groups}, {of}",
                lambda x, w, b, g=groups: functional.group_norm(x, g, w, b),
                [x, w, b],
                times,
            )
        yield call(
            f"instance_norm, {of}",
            lambda x, w, b: functional.instance_norm(x, None, None, w, b),
            [x, w, b],
            times,
        )
        scale = normal(5, 3, seed=4, dtype=dtype, grad=times > 0)
        yield call(
            f"layer_norm, {of}",
            lambda x, s: functional.layer_norm(x, (5, 3), s, s),
            [x, scale],
            times,
        )
        yield call(
            f"rms_norm, {of}", lambda x, s: functional.rms_norm(x, (5, 3), s), [x, scale], times
        )
        yield call(
            f"local_response_norm, {of}", lambda x: functional.local_response_norm(x, 3), [x], times
        )
        for p in (1.0, 2.0, 3.0, float("inf")):
            yield call(
                f"normalize, p {p}, {of}", lambda x, p=p: functional.normalize(x, p, 1), [x], times
            )


def _attention() -> Iterator[Call]:
    for mask, causal, dtype in itertools.product(
        ("none", "bool", "float", "rows"), (False, True), FLOATS[:3]
    ):
        if mask != "none" and causal:
            continue
        q, k, v = (
            normal(2, 4, n, 8, seed=n, dtype=dtype, grad=dtype == torch.float32) for n in (5, 7, 7)
        )
        given = {
            "none": None,
            "bool": torch.arange(35).reshape(5, 7) % 3 != 0,
            "float": normal(5, 7, seed=3, dtype=dtype),
            "rows": (torch.arange(7) < 4).expand(5, 7).clone().index_fill(0, _T(2), False),
        }[mask]
        for scale in (None, 0.3):

            def attended(
                q: Any, k: Any, v: Any, m: Any, causal: bool = causal, scale: Any = scale
            ) -> Any:
                return functional.scaled_dot_product_attention(
                    q, k, v, m, is_causal=causal, scale=scale
                )

            name = f"attention, mask {mask}, causal {causal}, scale {scale}, {name_of(dtype)}"
            yield call(name, attended, [q, k, v, given], times=int(dtype == torch.float32))


def _reductions() -> Iterator[Call]:
    names = "sum prod mean amax amin any all argmax argmin logsumexp nansum nanmean count_nonzero "
    names += "var std norm cumsum cumprod logcumsumexp softmax log_softmax"
    for name, dtype in itertools.product(names.split(), ALL):
        function = getattr(torch, name)
        for what, x in (
            (
                "special",
                special_numbers(dtype) if dtype not in COMPLEX else normal(24, dtype=dtype),
            ),
            ("none", torch.zeros(0, 3, dtype=dtype)),
            ("number", torch.ones((), dtype=dtype)),
        ):
            dims: tuple[Any, ...] = (0, -1) if x.dim() else (0,)
            for dim in dims:
                reduce = lambda x, d=dim, f=function, n=name: f(x, dim=d)
                yield call(f"{name} of {what}, dim {dim}, {name_of(dtype)}", reduce, [x])
            if name in ("sum", "prod", "mean", "any", "all", "argmax", "var", "std"):
                yield call(f"{name} of {what}, whole, {name_of(dtype)}", function, [x])
    for p, dim in itertools.product(
        (0, 0.5, 1, 2, 3, float("inf"), -float("inf")), (None, 0, (0, 1))
    ):
        norm = partial(torch.linalg.vector_norm, ord=p, dim=dim)
        yield call(f"vector_norm, {p}, dim {dim}", norm, [normal(4, 5, grad=True)], times=2)
        yield call(
            f"vector_norm of zeros, {p}, dim {dim}",
            norm,
            [torch.zeros(4, 5, requires_grad=True)],
            times=1,
        )
    for correction, dim in itertools.product((0, 1, 2, 5), (0, 1)):
        for name in ("var", "std", "var_mean", "std_mean"):
            deviation = partial(getattr(torch, name), dim=dim, correction=correction)
            yield call(
                f"{name}, correction {correction}, dim {dim}",
                deviation,
                [normal(4, 5, grad=True)],
                1,
            )


def _casts() -> Iterator[Call]:
    for dtype, other in itertools.product((*FLOATS, *INTEGERS, torch.bool), ALL):
        x = special_numbers(dtype)
        if dtype.is_floating_point and not (
            other.is_floating_point or other.is_complex or other == torch.bool
        ):
            x = x.nan_to_num(0, 100, -100 if other != torch.uint8 else 5).clamp(
                0 if other == torch.uint8 else -100, 100
            )
        yield call(
            f"cast from {name_of(dtype)} to {name_of(other)}", lambda x, o=other: x.to(o), [x]
        )
        y = x.clone()
        yield call(
            f"sum of {name_of(dtype)} and {name_of(other)}",
            lambda x, y: x + y,
            [x[:8], torch.ones(8, dtype=other)],
        )
        if not other.is_complex and dtype.is_floating_point:
            yield call(
                f"copy from {name_of(dtype)} into {name_of(other)}",
                lambda x, y: y.clone().copy_(x),
                [y, torch.ones(24, dtype=other)],
            )


def _transforms() -> Iterator[Call]:
    for name, norm, n, dim in itertools.product(
        ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"),
        (None, "ortho", "forward"),
        (None, 1, 4, 9),
        (0, -1),
    ):
        is_real = name in ("rfft", "ihfft")
        x = normal(6, 5, dtype=torch.float32 if is_real else torch.complex64, grad=True)
        transform = partial(getattr(torch.fft, name), n=n, dim=dim, norm=norm)
        yield call(f"{name}, norm {norm}, n {n}, dim {dim}", transform, [x], times=1)
    for name, norm, s in itertools.product(
        ("fftn", "ifftn", "rfftn", "irfftn", "fft2", "rfft2", "irfft2"),
        (None, "ortho", "forward"),
        (None, (3, 7)),
    ):
        x = normal(
            2, 6, 5, dtype=torch.float32 if name.startswith("r") else torch.complex64, grad=True
        )
        options: dict[str, Any] = {"s": s, "norm": norm}
        if s is not None:
            options["dim"] = (0, 2)
        yield call(named(name, options), partial(getattr(torch.fft, name), **options), [x], times=1)
    for n, hop, window, center, onesided, normalized in itertools.product(
        (8, 9), (2, 5), (False, True), (False, True), (False, True), (False, True)
    ):
        options = {
            "n_fft": n,
            "hop_length": hop,
            "center": center,
            "onesided": onesided,
            "normalized": normalized,
        }

        def spectrum(x: Any, w: Any, options: Any = options) -> Any:
            return torch.stft(x, window=w, return_complex=True, **options)

        w = positive(n) if window else None
        yield call(
            named(f"stft, window {window}", options),
            spectrum,
            [normal(2, 30, grad=True), w],
            times=1,
        )


def _matrices() -> Iterator[Call]:
    for dtype, shape in itertools.product(
        (torch.float32, torch.float64, torch.complex64),
        ((4, 4), (2, 3, 3), (0, 3, 3), (2, 0, 0), (1, 1)),
    ):
        times = int(dtype == torch.float32)
        a, spd = normal(*shape, dtype=dtype, grad=times > 0), definite(*shape, dtype=dtype)
        b = normal(*shape[:-1], 2, dtype=dtype, seed=3, grad=times > 0)
        singular = torch.zeros(shape, dtype=dtype) + torch.ones(shape[-1], dtype=dtype)
        of = f"{list(shape)}, {name_of(dtype)}"
        for name in (
            "det",
            "slogdet",
            "inv",
            "pinv",
            "svdvals",
            "matrix_exp",
            "eigvalsh",
            "matrix_rank",
            "cond",
        ):
            function = getattr(torch.linalg, name)
            given = a if name != "eigvalsh" else spd
            yield call(
                f"{name}, {of}",
                function,
                [given],
                times if name not in ("matrix_rank", "cond") else 0,
            )
            if name in ("det", "slogdet", "inv", "pinv", "svdvals", "matrix_rank"):
                yield call(f"{name} of singular, {of}", function, [singular])
        yield call(f"solve, {of}", torch.linalg.solve, [a, b], times)
        yield call(f"solve of singular, {of}", torch.linalg.solve, [singular, b.detach()])
        yield call(f"cholesky, {of}", torch.linalg.cholesky, [spd.requires_grad_(times > 0)], times)
        yield call(f"cholesky of indefinite, {of}", torch.linalg.cholesky, [-spd.detach()])
        yield call(
            f"cholesky_ex of indefinite, {of}",
            lambda x: torch.linalg.cholesky_ex(x)[1],
            [-spd.detach()],
        )
        yield call(f"lu_factor, {of}", torch.linalg.lu_factor, [a.detach()])
        yield call(f"inv_ex of singular, {of}", lambda x: torch.linalg.inv_ex(x)[1], [singular])
        yield call(f"qr, {of}", lambda x: torch.linalg.qr(x)[1].abs(), [a.detach()])
        for upper, left in itertools.product((False, True), repeat=2):
            rhs = b if left else b.mT

            def solved(a: Any, b: Any, upper: bool = upper, left: bool = left) -> Any:
                return torch.linalg.solve_triangular(a, b, upper=upper, left=left)

            yield call(
                f"solve_triangular, upper {upper}, left {left}, {of}",
                solved,
                [a, rhs.detach().requires_grad_(times > 0)],
                times,
            )
        for power in (-2, 0, 1, 3):
            yield call(
                f"matrix_power, {power}, {of}",
                partial(torch.linalg.matrix_power, n=power),
                [a],
                times,
            )
        for p in ("fro", "nuc", 1, -1, 2, -2, float("inf")):
            yield call(
                f"matrix_norm, {p}, {of}", partial(torch.linalg.matrix_norm, ord=p), [a.detach()]
            )
    for shape in ((5, 3), (3, 5), (2, 4, 3), (3, 0), (0, 3)):
        a = normal(*shape)
        for name in ("pinv", "svdvals", "matrix_rank"):
            yield call(f"{name}, {list(shape)}", getattr(torch.linalg, name), [a])
        for mode in ("reduced", "complete", "r"):
            yield call(
                f"qr, {mode}, {list(shape)}", lambda x, m=mode: torch.linalg.qr(x, m)[1].abs(), [a]
            )
        yield call(
            f"lstsq, {list(shape)}",
            lambda a, b: torch.linalg.lstsq(a, b)[0],
            [a, normal(*shape[:-1], 2)],
        )
    for is_batch, dtype in itertools.product(
        (True, False), (torch.float32, torch.bfloat16, torch.int64, torch.bool)
    ):
        x = integers(3, 4, least=-3 if dtype != torch.bool else 0, dtype=dtype)
        for name in ("tril", "triu"):
            for k in (-5, -1, 0, 2, 9):
                yield call(
                    f"{name}, {k}, batch {is_batch}, {name_of(dtype)}",
                    lambda x, k=k, n=name: getattr(torch, n)(x, k),
                    [x[None] if is_batch else x],
                )
