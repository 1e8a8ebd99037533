"""Pools, convolutions, resized and sampled images of PyTorch, with every option, on ``xla`` beside PyTorch's CPU."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional

from tests.scan.call import Call
from tests.scan.torch_tensors import distinct, name_of, named, normal
from tests.scan.torch_ways import call

_SIZES: Final = {1: (11,), 2: (9, 7), 3: (5, 6, 4)}
_SHORT: Final = (torch.bfloat16, torch.float64)


def calls() -> Iterator[Call]:
    yield from _pools()
    yield from _adaptive_pools()
    yield from _convolutions()
    yield from _transposed()
    yield from _resized()
    yield from _sampled()
    yield from _padded()


def _pools() -> Iterator[Call]:
    for d, kernel, stride, padding, ceil in itertools.product(
        (1, 2, 3), (1, 2, 3), (None, 1, 2, 3), (0, 1), (False, True)
    ):
        if padding * 2 > kernel:
            continue
        x = distinct(2, 3, *_SIZES[d]).requires_grad_(True)
        options = {"kernel_size": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil}
        for dilation, places in itertools.product((1, 2), (False, True)):
            more = options | {"dilation": dilation, "return_indices": places}
            yield call(
                named(f"max_pool{d}d", more),
                partial(getattr(functional, f"max_pool{d}d"), **more),
                [x],
                times=1,
            )
        divisors: list[dict[str, Any]] = [{}] if d == 1 else [{}, {"divisor_override": 5}]
        for includes, divisor in itertools.product((True, False), divisors):
            more = options | {"count_include_pad": includes} | divisor
            average = partial(getattr(functional, f"avg_pool{d}d"), **more)
            yield call(named(f"avg_pool{d}d", more), average, [x], times=1)
        if padding == 0:
            of_power: dict[str, Any] = {"norm_type": 3.0, **options}
            del of_power["padding"]
            y = normal(2, 3, *_SIZES[d], grad=True)
            power = partial(getattr(functional, f"lp_pool{d}d"), **of_power)
            yield call(named(f"lp_pool{d}d", of_power), power, [y], times=1)
    for d, dtype in itertools.product((1, 2, 3), (*_SHORT, torch.float16, torch.int64)):
        x = distinct(2, 3, *_SIZES[d], dtype=dtype)
        pool = partial(getattr(functional, f"max_pool{d}d"), kernel_size=3, stride=2, padding=1)
        yield call(f"max_pool{d}d, {name_of(dtype)}", pool, [x])
        if dtype.is_floating_point:
            average = partial(
                getattr(functional, f"avg_pool{d}d"), kernel_size=3, stride=2, padding=1
            )
            yield call(f"avg_pool{d}d, {name_of(dtype)}", average, [x])
    for d, value in itertools.product((1, 2, 3), (float("nan"), float("inf"), float("-inf"))):
        x = distinct(1, 2, *_SIZES[d])
        x.view(-1)[::5] = value
        for kind in ("max", "avg"):
            pool = partial(getattr(functional, f"{kind}_pool{d}d"), kernel_size=2, padding=1)
            yield call(f"{kind}_pool{d}d of {value}", pool, [x.requires_grad_(True)], times=1)
    for d, stride in itertools.product((1, 2, 3), (1, 2, 3)):

        def unpooled(x: torch.Tensor, d: int = d, stride: int = stride) -> torch.Tensor:
            y, places = getattr(functional, f"max_pool{d}d")(x, 2, stride, return_indices=True)
            result: torch.Tensor = getattr(functional, f"max_unpool{d}d")(
                y, places, 2, stride, output_size=x.shape
            )
            return result

        x = distinct(2, 2, *_SIZES[d]).requires_grad_(True)
        yield call(f"max_unpool{d}d, stride {stride}", unpooled, [x], times=1)


def _adaptive_pools() -> Iterator[Call]:
    for d, size in itertools.product((1, 2, 3), (1, 2, 3, 4, 12)):
        x = distinct(2, 3, *_SIZES[d]).requires_grad_(True)
        for kind, places in (("avg", None), ("max", False), ("max", True)):
            function = getattr(functional, f"adaptive_{kind}_pool{d}d")
            options = {} if places is None else {"return_indices": places}
            name = named(f"adaptive_{kind}_pool{d}d to {size}", options)
            yield call(name, partial(function, output_size=size, **options), [x], times=1)


def _convolutions() -> Iterator[Call]:
    for d, groups, stride, padding, dilation, bias in itertools.product(
        (1, 2, 3), (1, 2, 4), (1, 2), (0, 1, "same", "valid"), (1, 2), (False, True)
    ):
        if padding == "same" and stride != 1:
            continue
        x = normal(2, 4, *_SIZES[d], grad=True)
        w = normal(8, 4 // groups, *(3, 2, 3)[:d], grad=True)
        b = normal(8, grad=True) if bias else None
        options = {"groups": groups, "stride": stride, "padding": padding, "dilation": dilation}
        convolve = partial(getattr(functional, f"conv{d}d"), **options)
        yield call(
            named(f"conv{d}d, bias {bias}", options), lambda *a, f=convolve: f(*a), [x, w, b], 1
        )
    for d, dtype in itertools.product((1, 2, 3), (*_SHORT, torch.float16, torch.complex64)):
        x, w = (
            normal(2, 4, *_SIZES[d], dtype=dtype),
            normal(6, 2, *(3,) * d, dtype=dtype),
        )
        convolve = partial(getattr(functional, f"conv{d}d"), groups=2, padding=1)
        yield call(f"conv{d}d, {name_of(dtype)}", lambda *a, f=convolve: f(*a), [x, w])
    for d, empty in itertools.product((1, 2), ("batch", "outputs", "inputs", "pixels")):
        x = normal(
            0 if empty == "batch" else 2,
            0 if empty == "inputs" else 4,
            *((0,) * d if empty == "pixels" else _SIZES[d]),
            grad=True,
        )
        w = normal(
            0 if empty == "outputs" else 6, 0 if empty == "inputs" else 4, *(3,) * d, grad=True
        )
        convolve = partial(getattr(functional, f"conv{d}d"), padding=2)
        yield call(f"conv{d}d, no {empty}", lambda *a, f=convolve: f(*a), [x, w], 1)
    for d in (1, 2, 3):
        x, w = normal(4, *_SIZES[d], grad=True), normal(6, 4, *(2,) * d, grad=True)
        yield call(f"conv{d}d, no batch", getattr(functional, f"conv{d}d"), [x, w], 1)


def _transposed() -> Iterator[Call]:
    for d, groups, stride, padding, more, dilation in itertools.product(
        (1, 2, 3), (1, 2), (1, 2, 3), (0, 1), (0, 1), (1, 2)
    ):
        if more >= max(stride, dilation):
            continue
        x, w = normal(2, 4, *_SIZES[d], grad=True), normal(4, 3, *(3, 2, 3)[:d], grad=True)
        b = normal(3 * groups, grad=True)
        options = {
            "groups": groups,
            "stride": stride,
            "padding": padding,
            "output_padding": more,
            "dilation": dilation,
        }
        convolve = partial(getattr(functional, f"conv_transpose{d}d"), **options)
        name = named(f"conv_transpose{d}d", options)
        yield call(name, lambda *a, f=convolve: f(*a), [x, w, b], times=1)


def _resized() -> Iterator[Call]:
    modes = {
        1: ("nearest", "linear", "area", "nearest-exact"),
        2: ("nearest", "bilinear", "bicubic", "area", "nearest-exact"),
        3: ("nearest", "trilinear", "area", "nearest-exact"),
    }
    for d in (1, 2, 3):
        x = normal(2, 3, *_SIZES[d], grad=True)
        for mode in modes[d]:
            wanted: list[dict[str, Any]] = [{"size": s} for s in ((3,) * d, (13,) * d, (1,) * d)]
            wanted += [{"scale_factor": s} for s in (0.4, 1.7, 2.0, 3.0)]
            wanted += [{"scale_factor": 1.7, "recompute_scale_factor": True}]
            corners = (False, True) if "linear" in mode or "cubic" in mode else (None,)
            smooth = (False, True) if mode in ("bilinear", "bicubic") else (False,)
            for size, corner, antialias in itertools.product(wanted, corners, smooth):
                options = {"mode": mode, "align_corners": corner, "antialias": antialias, **size}
                resize = partial(functional.interpolate, **options)
                yield call(named(f"interpolate {d}d", options), resize, [x], times=1)
            for dtype in (*_SHORT, torch.uint8):
                y = normal(2, 3, *_SIZES[d], dtype=torch.float32)
                y = (y * 50 + 100).clamp(0, 255).to(dtype)
                resize = partial(functional.interpolate, mode=mode, scale_factor=2)
                yield call(f"interpolate {d}d, {mode}, {name_of(dtype)}", resize, [y])


def _sampled() -> Iterator[Call]:
    for d, mode, padding, corner in itertools.product(
        (2, 3),
        ("bilinear", "nearest", "bicubic"),
        ("zeros", "border", "reflection"),
        (False, True),
    ):
        if d == 3 and mode == "bicubic":
            continue
        x, grid = normal(2, 3, *_SIZES[d], grad=True), normal(2, *(4, 5, 3)[:d], d, grad=True)
        options: dict[str, Any] = {
            "mode": mode,
            "padding_mode": padding,
            "align_corners": corner,
        }
        sample = partial(functional.grid_sample, **options)
        name = named(f"grid_sample {d}d", options)
        yield call(name, lambda *a, f=sample: f(*a), [x, grid], times=1)
        far = grid.detach() * (300 if padding == "reflection" else 1e4)
        yield call(f"{name}, far", lambda *a, f=sample: f(*a), [x.detach(), far])
    for d, corner in itertools.product((2, 3), (False, True)):
        theta = normal(2, d, d + 1, grad=True)
        size = [2, 3, *_SIZES[d]]
        grid_of = partial(functional.affine_grid, size=size, align_corners=corner)
        yield call(f"affine_grid {d}d, align_corners {corner}", grid_of, [theta], times=1)


def _padded() -> Iterator[Call]:
    for d, mode in itertools.product((1, 2, 3), ("constant", "reflect", "replicate", "circular")):
        for pad in ((1, 2), (0, 3), (3, 0), (-1, 2), (-1, -1), (0, 0)):
            amounts = pad * d
            x = normal(2, 3, *_SIZES[d], grad=True)
            function = partial(functional.pad, pad=amounts, mode=mode)
            yield call(f"pad {d}d, {mode}, {pad}", function, [x], times=1)
    every: tuple[dict[str, Any], ...] = ({}, {"stride": 2}, {"padding": 1}, {"dilation": 2})
    for options in every:
        x = normal(2, 3, *_SIZES[2], grad=True)
        yield call(
            named("unfold", options), partial(functional.unfold, kernel_size=2, **options), [x], 1
        )

        def folded(x: torch.Tensor, options: dict[str, Any] = options) -> torch.Tensor:
            return functional.fold(functional.unfold(x, 2, **options), _SIZES[2], 2, **options)

        yield call(named("fold", options), folded, [x], times=1)
