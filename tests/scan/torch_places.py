"""Indices, scatters, sorts and views of PyTorch, repeated and negative ones too, on ``xla`` beside the CPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import torch

from tests.scan.call import Call
from tests.scan.torch_tensors import ALL, FLOATS, INTEGERS, distinct, integers, name_of, normal
from tests.scan.torch_tensors import special as special_numbers
from tests.scan.torch_ways import call

_T = torch.tensor
_DTYPES: Final = (torch.float32, torch.int64, torch.bfloat16, torch.bool, torch.complex64)

# By its name, an index into a tensor of 7 rows and 5 columns.
_INDICES: Final[dict[str, Any]] = {
    "number": 3,
    "negative number": -2,
    "tensor": _T([4, 0, 2]),
    "negative": _T([-1, -7, 3]),
    "repeated": _T([2, 2, 5, 2, 0]),
    "int32": _T([2, -1], dtype=torch.int32),
    "bytes as mask": _T([1, 0, 0, 1, 1, 0, 1], dtype=torch.uint8),
    "without dimensions": _T(3),
    "none": _T([], dtype=torch.int64),
    "table": _T([[0, 3], [-1, 3]]),
    "pairs": (_T([1, 1, 6]), _T([4, 4, -5])),
    "outer pairs": (_T([[1], [3]]), _T([4, 0, 4])),
    "tensor and number": (_T([1, 1, 6]), 2),
    "number and tensor": (2, _T([1, 1, 4])),
    "columns": (slice(None), _T([4, 4, 0])),
    "slice": slice(1, 6, 2),
    "slice and tensor": (slice(None, None, 3), _T([4, 0])),
    "empty slice": slice(5, 2),
    "far slice": slice(-100, 100),
    "slice and number": (slice(2, 5), -1),
    "dots": (Ellipsis, 2),
    "new axis": (None, _T([1, 2])),
    "new axis between": (_T([1, 2]), None, _T([0, 3])),
    "mask": torch.arange(7) % 3 == 0,
    "mask of elements": torch.arange(35).reshape(7, 5) % 4 == 1,
    "mask of columns": (slice(None), torch.arange(5) % 2 == 0),
    "mask and tensor": (torch.arange(7) % 3 == 0, _T([0, 2, 2])),
    "mask of none": torch.zeros(7, dtype=torch.bool),
    "true": True,
    "false": False,
    "all": Ellipsis,
}


def calls() -> Iterator[Call]:
    yield from _indices()
    yield from _scatters()
    yield from _rows()
    yield from _sorts()
    yield from _views()
    yield from _written_views()


def _whole(dtype: torch.dtype, *shape: int, seed: int = 0) -> torch.Tensor:
    """Small whole numbers, so that sums and products in any order are equal."""
    return integers(*shape, least=0 if dtype == torch.uint8 else -3, seed=seed, dtype=dtype)


def _at(index: Any, device: torch.device) -> Any:
    if isinstance(index, tuple):
        return tuple(_at(i, device) for i in index)
    return index.to(device) if isinstance(index, torch.Tensor) else index


def _indices() -> Iterator[Call]:
    for (name, index), dtype in itertools.product(_INDICES.items(), _DTYPES):
        x = _whole(dtype, 7, 5, seed=1)
        differentiable = dtype in (torch.float32, torch.complex64)
        x.requires_grad_(differentiable)
        of = f"{name}, {name_of(dtype)}"
        times = int(differentiable)
        yield call(f"get of {of}", lambda x, i=index: x[_at(i, x.device)], [x], times)
        y = _whole(dtype, *x[index].shape, seed=2).requires_grad_(differentiable)

        def put(x: Any, y: Any, i: Any = index) -> Any:
            x = x.clone()
            x[_at(i, x.device)] = y
            return x

        def put_in_columns(x: Any, y: Any, i: Any = index) -> Any:
            whole = torch.stack([x, x], 1)
            whole[:, 1][_at(i, x.device)] = y
            return whole

        repeated = name in ("repeated", "pairs", "columns", "outer pairs", "table")
        repeated = repeated or name in ("number and tensor", "tensor and number", "mask and tensor")
        if not repeated:
            yield call(f"put of {of}", put, [x, y], times)
            yield call(f"put into a view of {of}", put_in_columns, [x, y], times)
        yield call(f"put of a number, {of}", lambda x, p=put: p(x, 2), [x], times)
        if not isinstance(index, (int, slice)) and index is not Ellipsis:
            places = index if isinstance(index, tuple) else (index,)
            if all(isinstance(i, torch.Tensor) for i in places):

                def accumulated(x: Any, y: Any, i: Any = places) -> Any:
                    return x.index_put(_at(i, x.device), y, accumulate=True)

                yield call(f"index_put with accumulate, {of}", accumulated, [x, y], times)


def _scatters() -> Iterator[Call]:
    index = integers(4, 5, most=6, seed=5)
    wide = integers(9, 5, most=6, seed=6)
    for dtype, dim in itertools.product(
        (*_DTYPES, torch.int32, torch.uint8, torch.float16), (0, -1)
    ):
        x, rows = _whole(dtype, 7, 5, seed=3), index if dim == 0 else index.clamp(max=4)
        times = int(dtype == torch.float32)
        x.requires_grad_(times > 0)
        y = _whole(dtype, 4, 5, seed=4).requires_grad_(times > 0)
        of = f"dim {dim}, {name_of(dtype)}"
        yield call(f"gather, {of}", lambda x, i, d=dim: x.gather(d, i), [x, rows], times)
        yield call(
            f"scatter_add, {of}", lambda x, i, y, d=dim: x.scatter_add(d, i, y), [x, rows, y], times
        )
        yield call(
            f"scatter of a number, {of}", lambda x, i, d=dim: x.scatter(d, i, 2), [x, rows], times
        )
        if dim == 0:
            z = _whole(dtype, 9, 5, seed=4)
            yield call(
                f"scatter_add of more, {of}", lambda x, i, y: x.scatter_add(0, i, y), [x, wide, z]
            )
        if dtype in (torch.bool, torch.complex64):
            continue
        for reduce, own in itertools.product(
            ("sum", "prod", "mean", "amax", "amin"), (True, False)
        ):
            function = partial(_scatter_reduce, dim=dim, reduce=reduce, include_self=own)
            name = f"scatter_reduce, {reduce}, include_self {own}, {of}"
            yield call(name, lambda *a, f=function: f(*a), [x, rows, y], times)
            if reduce == "sum" or dtype == torch.float16:
                continue
            places = _T([6, 0, 6, 1]) if dim == 0 else _T([4, 0, 4, 1, 1])
            source = y if dim == 0 else _whole(dtype, 7, 5, seed=4)
            function = partial(_index_reduce, dim=dim, reduce=reduce, include_self=own)
            name = f"index_reduce, {reduce}, include_self {own}, {of}"
            yield call(name, lambda *a, f=function: f(*a), [x, places, source], times)
    for value, reduce in itertools.product(
        (float("nan"), float("inf"), float("-inf")), ("sum", "prod", "mean", "amax", "amin")
    ):
        y = normal(4, 5)
        y[1] = value
        function = partial(_scatter_reduce, dim=0, reduce=reduce, include_self=True)
        name = f"scatter_reduce, {reduce} of {value}"
        yield call(name, lambda *a, f=function: f(*a), [normal(7, 5), index, y])


def _scatter_reduce(x: Any, i: Any, y: Any, dim: int, reduce: str, include_self: bool) -> Any:
    return x.scatter_reduce(dim, i, y, reduce, include_self=include_self)


def _index_reduce(x: Any, i: Any, y: Any, dim: int, reduce: str, include_self: bool) -> Any:
    return x.index_reduce(dim, i, y, reduce, include_self=include_self)


def _rows() -> Iterator[Call]:
    """Rows and columns by their places, and elements by their places in the whole."""
    for dtype, dim in itertools.product(ALL, (0, 1, -1)):
        times = int(dtype == torch.float32)
        x = _whole(dtype, 7, 5, seed=3).requires_grad_(times > 0)
        index = _T([4, 0, 4, 1])
        rows = _whole(dtype, *((4, 5) if dim == 0 else (7, 4)), seed=4).requires_grad_(times > 0)
        different = _T([4, 0, 2, 1])
        of = f"dim {dim}, {name_of(dtype)}"
        yield call(
            f"index_select, {of}", lambda x, i, d=dim: x.index_select(d, i), [x, index], times
        )
        yield call(
            f"index_add, {of}", lambda x, i, y, d=dim: x.index_add(d, i, y), [x, index, rows], times
        )
        if dtype != torch.bool:
            yield call(
                f"index_add by 2, {of}",
                lambda x, i, y, d=dim: x.index_add(d, i, y, alpha=2),
                [x, index, rows],
                times,
            )
        yield call(
            f"index_copy, {of}",
            lambda x, i, y, d=dim: x.index_copy(d, i, y),
            [x, different, rows],
            times,
        )
        yield call(
            f"index_fill, {of}", lambda x, i, d=dim: x.index_fill(d, i, 1), [x, index], times
        )
        if dim != 0:
            continue
        flat = _T([[34, 0], [-1, 7]])
        yield call(f"take, {name_of(dtype)}", torch.take, [x, flat], times)
        y = _whole(dtype, 2, 2, seed=7).requires_grad_(times > 0)
        for adds in (True, False):
            name = f"put, accumulate {adds}, {name_of(dtype)}"
            put = lambda x, i, y, a=adds: x.put(i, y, accumulate=a)
            yield call(
                name,
                put,
                [x, flat.clamp(min=-2) if adds else flat[:, :1], y if adds else y[:, :1]],
                times,
            )
        yield call(
            f"take_along_dim, {name_of(dtype)}",
            lambda x, i: torch.take_along_dim(x, i, 1),
            [x, _T([[3], [0]]).repeat(4, 1)[:7]],
            times,
        )
        mask = torch.arange(35).reshape(7, 5) % 3 == 0
        yield call(
            f"masked_fill, {name_of(dtype)}", lambda x, m: x.masked_fill(m, 1), [x, mask], times
        )
        yield call(f"masked_select, {name_of(dtype)}", torch.masked_select, [x, mask], times)
        source = _whole(dtype, 40, seed=8)
        yield call(f"masked_scatter, {name_of(dtype)}", torch.masked_scatter, [x, mask, source])
        yield call(
            f"where, {name_of(dtype)}", torch.where, [mask, x, _whole(dtype, 1, 5, seed=9)], times
        )
        yield call(f"nonzero, {name_of(dtype)}", torch.nonzero, [x])
        yield call(f"argwhere, {name_of(dtype)}", torch.argwhere, [x])


def _sorts() -> Iterator[Call]:
    for dtype, dim in itertools.product((*FLOATS, *INTEGERS, torch.bool), (0, -1)):
        x = distinct(6, 5, dtype=dtype) if dtype != torch.bool else _whole(dtype, 6, 5)
        of = f"dim {dim}, {name_of(dtype)}"
        for down in (False, True):
            name = f"sort, descending {down}, {of}"
            yield call(name, lambda x, d=dim, w=down: x.sort(dim=d, descending=w, stable=True), [x])
        if dtype == torch.bool:
            continue
        for largest, count in itertools.product((False, True), (0, 1, 3)):
            name = f"topk of {count}, largest {largest}, {of}"
            yield call(name, lambda x, k=count, d=dim, w=largest: torch.topk(x, k, d, w), [x])
        yield call(f"kthvalue, {of}", lambda x, d=dim: torch.kthvalue(x, 2, d), [x])
        yield call(f"median, {of}", lambda x, d=dim: torch.median(x, d), [x])
        yield call(f"mode, {of}", lambda x, d=dim: torch.mode(x, d)[0], [_whole(dtype, 6, 5)])
        for name in ("cummax", "cummin"):
            yield call(f"{name}, {of}", lambda x, n=name, d=dim: getattr(torch, n)(x, d), [x])
        for name in ("argmax", "argmin"):
            yield call(f"{name}, {of}", lambda x, n=name, d=dim: getattr(torch, n)(x, d), [x])
    for dtype in (*FLOATS, *INTEGERS):
        x = special_numbers(dtype)
        for name in (
            "sort",
            "msort",
            "argsort",
            "cummax",
            "cummin",
            "unique",
            "unique_consecutive",
        ):
            options: dict[str, Any] = {"stable": True} if name in ("sort", "argsort") else {}
            options |= {"dim": 0} if name in ("cummax", "cummin") else {}
            function = partial(getattr(torch, name), **options)
            yield call(f"{name} of special, {name_of(dtype)}", function, [x])
        for down in (False, True):
            yield call(
                f"sort of special, descending {down}, {name_of(dtype)}",
                lambda x, w=down: torch.sort(x, 0, w)[0],
                [x],
            )
            yield call(
                f"topk of special, largest {down}, {name_of(dtype)}",
                lambda x, w=down: torch.topk(x, 9, 0, w)[0],
                [x],
            )
        for name in (
            "max",
            "min",
            "median",
            "nanmedian",
            "argmax",
            "argmin",
            "amax",
            "amin",
            "aminmax",
            "mode",
        ):
            if not hasattr(torch, name):
                continue
            function = getattr(torch, name)
            reduce = (lambda x, f=function: f(x, 0)[0]) if name == "mode" else function
            yield call(f"{name} of special, {name_of(dtype)}", reduce, [x])
        y = _whole(dtype, 4, 6)
        for flags in itertools.product((False, True), repeat=2):
            of = f"inverse {flags[0]}, counts {flags[1]}, {name_of(dtype)}"
            for name in ("unique", "unique_consecutive"):
                for along in (None, 0, 1):
                    function = partial(
                        getattr(torch, name),
                        return_inverse=flags[0],
                        return_counts=flags[1],
                        dim=along,
                    )
                    yield call(f"{name}, dim {along}, {of}", function, [y])
        edges = torch.sort(distinct(7, dtype=dtype))[0]
        for right in (False, True):
            name = f"right {right}, {name_of(dtype)}"
            yield call(
                f"searchsorted, {name}",
                lambda e, x, r=right: torch.searchsorted(e, x, right=r),
                [edges, y],
            )
            yield call(
                f"bucketize, {name}",
                lambda e, x, r=right: torch.bucketize(x, e, right=r),
                [edges, y],
            )
    for q, mode in itertools.product(
        (0.0, 0.3, 0.5, 1.0), ("linear", "lower", "higher", "midpoint", "nearest")
    ):
        x = distinct(6, 5).requires_grad_(True)
        for name in ("quantile", "nanquantile"):
            function = partial(getattr(torch, name), q=q, dim=1, interpolation=mode)
            yield call(f"{name} {q}, {mode}", function, [x], times=1)
    for bins, least, most in ((5, 0, 0), (4, -2, 2), (1, 0, 1)):
        yield call(
            f"histc {bins}, {least}, {most}",
            lambda x, b=bins, l=least, m=most: torch.histc(x, b, l, m),
            [normal(50)],
        )
    for weights, least in itertools.product((None, torch.float32, torch.int64), (0, 9)):
        w = None if weights is None else _whole(weights, 20)
        name = f"bincount, weights {weights}, minlength {least}"
        yield call(name, lambda x, w, m=least: torch.bincount(x, w, m), [integers(20, most=6), w])


# By its name, a view of a tensor of 6 rows and 4 columns.
_VIEWS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "row": lambda x: x[2],
    "column": lambda x: x[:, -1],
    "element": lambda x: x[3, 2],
    "rows": lambda x: x[1:5:2],
    "transpose": lambda x: x.t(),
    "columns of the transpose": lambda x: x.t()[1:, ::2],
    "diagonal": lambda x: x.diagonal(),
    "lower diagonal": lambda x: x.diagonal(-2),
    "flat": lambda x: x.view(-1)[5:20:3],
    "other shape": lambda x: x.view(3, 8)[:, 1:3],
    "narrow": lambda x: x.narrow(1, 1, 2).narrow(0, 2, 3),
    "unfolded": lambda x: x.unfold(0, 2, 2),
    "as strided": lambda x: x.as_strided((3, 2), (8, 1), 2),
    "squeezed": lambda x: x[2:3].squeeze(0)[1:],
    "unsqueezed": lambda x: x.unsqueeze(1)[:, 0, 1:3],
    "chunk": lambda x: x.chunk(3)[1],
    "split": lambda x: torch.split(x, [1, 3], 1)[1],
    "unbound": lambda x: x.unbind(1)[2],
    "moved": lambda x: x.view(2, 3, 4).permute(2, 0, 1)[1:3],
    "swapped": lambda x: x.view(2, 3, 4).swapaxes(0, 2)[:, 1],
    "without elements": lambda x: x[3:3],
    "detached": lambda x: x.detach()[1:3],
    "window": lambda x: x[1:4, 1:3].t().reshape(3, 2)[:2],
}
_WRITES: Final[dict[str, Callable[[torch.Tensor], Any]]] = {
    "add_": lambda v: v.add_(2),
    "mul_": lambda v: v.mul_(v),
    "fill_": lambda v: v.fill_(7),
    "copy_": lambda v: v.copy_(torch.arange(v.numel(), device=v.device).reshape(v.shape)),
    "zero_": lambda v: v.zero_(),
    "clamp_": lambda v: v.clamp_(-1, 1),
    "masked_fill_": lambda v: v.masked_fill_(v > 0, -5),
    "item": lambda v: v.__setitem__(slice(0, 1) if v.dim() else (), 9),
    "add_ of itself": lambda v: v.add_(v.flip(0) if v.dim() else v),
    "exp_": lambda v: (
        v.exp_() if v.is_floating_point() else v.neg_() if v.dtype != torch.uint8 else v.add_(1)
    ),
    "bernoulli-free sort": lambda v: v.copy_(v.sort(0)[0] if v.dim() else v),
    "index_fill_": lambda v: (
        v.index_fill_(0, torch.zeros(1, dtype=torch.int64, device=v.device), 3) if v.numel() else v
    ),
    "cumsum_": lambda v: v.cumsum_(0) if v.dim() else v,
}


def _views() -> Iterator[Call]:
    for (name, view), dtype in itertools.product(_VIEWS.items(), ALL):
        x = _whole(dtype, 6, 4, seed=1)
        yield call(f"view: {name}, {name_of(dtype)}", lambda x, v=view: v(x), [x])
        if dtype == torch.float32 and name != "detached":
            y = normal(6, 4, grad=True)
            yield call(f"view: {name}, gradients", lambda x, v=view: v(x) * v(x), [y], times=2)


def _written_views() -> Iterator[Call]:
    for (name, view), (what, write), dtype in itertools.product(
        _VIEWS.items(), _WRITES.items(), (torch.float32, torch.int64, torch.uint8, torch.bfloat16)
    ):

        def written(x: Any, view: Any = view, write: Any = write) -> Any:
            base = x.clone()
            part = view(base)
            write(part)
            return base, part, base.sum(), view(base)

        def written_twice(x: Any, view: Any = view, write: Any = write) -> Any:
            base = x.clone()
            other = base[1:]
            write(view(base))
            other.mul_(2)
            write(view(base))
            return base, other

        x = _whole(dtype, 6, 4, seed=1)
        yield call(f"{what} into {name}, {name_of(dtype)}", written, [x])
        if dtype == torch.float32:
            yield call(f"{what} into {name}, twice", written_twice, [x])
            if name not in ("detached", "without elements") and what not in ("add_ of itself",):
                y = normal(6, 4, grad=True)

                def with_gradients(x: Any, view: Any = view, write: Any = write) -> Any:
                    base = x * 1.0
                    write(view(base))
                    return base

                yield call(f"{what} into {name}, gradients", with_gradients, [y], times=1)
