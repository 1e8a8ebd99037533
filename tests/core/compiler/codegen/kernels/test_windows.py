"""Windowed reductions and select-and-scatter against plain loops."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel, op

Array = np.ndarray[Any, Any]
BODIES: dict[str, tuple[Callable[[Any, Any], Any], float]] = {
    "add": (lambda a, b: a + b, 0),
    "maximum": (max, -100),
    "minimum": (min, 100),
    "multiply": (lambda a, b: a * b, 1),
}


def body(name: str, dtype: DType) -> hlo.Computation:
    a, b = hlo.parameter(0, hlo.Shape(dtype)), hlo.parameter(1, hlo.Shape(dtype))
    return hlo.Computation.from_root(name, [a, b], op(name, hlo.Shape(dtype), a, b))


def outputs(dims: Sequence[int], window: Sequence[W]) -> tuple[int, ...]:
    result = []
    for size, w in zip(dims, window, strict=True):
        length = ((size - 1) * w.base_dilation + 1 if size else 0) + w.padding_low + w.padding_high
        reach = (w.size - 1) * w.window_dilation + 1
        result.append((length - reach) // w.stride + 1 if length >= reach else 0)
    return tuple(result)


def positions(dims: Sequence[int], window: Sequence[W], at: Sequence[int]) -> list[tuple[int, ...]]:
    """The elements under the window at output index ``at``."""
    found = []
    for p in np.ndindex(*[w.size for w in window]):
        place = []
        for size, w, o, k in zip(dims, window, at, p, strict=True):
            c = o * w.stride + k * w.window_dilation - w.padding_low
            if c < 0 or c % w.base_dilation or c // w.base_dilation >= size:
                break
            place.append(c // w.base_dilation)
        else:
            found.append(tuple(place))
    return found


def check(
    dims: Sequence[int],
    window: Sequence[W],
    function: str = "add",
    dtype: DType = dtypes.F32,
    cpu: str = "host",
) -> None:
    shape = hlo.Shape(dtype, tuple(dims))
    result = hlo.Shape(dtype, outputs(dims, window))
    operands = [hlo.parameter(0, shape), hlo.parameter(1, hlo.Shape(dtype))]
    i = op("reduce-window", result, *operands, called=[body(function, dtype)], window=tuple(window))
    apply, initial = BODIES[function]
    if dtype.kind == "uint":
        initial = max(initial, 0)
    x = (
        np.random.default_rng(1)
        .integers(0 if dtype.kind == "uint" else -3, 4, dims)
        .astype(dtype.numpy)
    )
    expected = np.full(result.dims, initial, dtype.numpy)
    for at in np.ndindex(*result.dims):
        for p in positions(dims, window, at):
            expected[at] = apply(expected[at], x[p])
    kernel = Kernel(i, for_cpu(cpu))
    (got,) = kernel.run([x, np.array(initial, dtype.numpy)], [kernel.emitted.work_count // 2])
    np.testing.assert_array_equal(got, expected)


ONE = W(1)
CASES: dict[str, tuple[Sequence[int], Sequence[W]]] = {
    "max pool 2x2, channels last": ((2, 8, 6, 20), [ONE, W(2, 2), W(2, 2), ONE]),
    "pool 3x3 same": ((2, 7, 6, 33), [ONE, W(3, 2, 1, 1), W(3, 1, 1, 1), ONE]),
    "pool, channels first": ((2, 3, 9, 40), [ONE, ONE, W(2, 2), W(2, 2)]),
    "pool same, channels first": ((1, 2, 5, 37), [ONE, ONE, W(3, 1, 1, 1), W(3, 1, 1, 1)]),
    "one dimension": ((70,), [W(5, 1, 2, 2)]),
    "strided and dilated": ((20, 3), [W(3, 2, 1, 3, window_dilation=3), ONE]),
    "base dilation": ((6, 35), [W(3, 1, 2, 2, base_dilation=2), ONE]),
    "base dilation, minor": ((3, 35), [ONE, W(4, 1, 2, 2, base_dilation=3)]),
    "negative padding": ((12, 18), [W(2, 1, -3, -1), W(2, 1, -1, 2)]),
    "large window": ((9, 50), [W(9, 1, 0, 0), W(11, 3, 4, 2)]),
    "mostly padding": ((3, 4), [W(2, 1, 5, 5), ONE]),
    "cumulative": ((6, 40), [W(6, 1, 5, 0), ONE]),
    "cumulative, reverse": ((6, 40), [W(6, 1, 0, 5), ONE]),
    "cumulative, minor": ((3, 41), [ONE, W(41, 1, 40, 0)]),
    "cumulative, minor, reverse": ((3, 41), [ONE, W(41, 1, 0, 40)]),
    "cumulative, one dimension": ((33,), [W(33, 1, 32, 0)]),
    "empty operand": ((0, 4), [W(1, 1, 2, 2), ONE]),
    "empty result": ((3, 4), [W(5), ONE]),
    "scalar": ((), []),
}


@pytest.mark.parametrize("name", list(CASES))
def test_windows(name: str) -> None:
    for cpu in ("host", "x86-64-v2"):
        check(*CASES[name], cpu=cpu)
    check(*CASES[name], function="maximum")


@pytest.mark.parametrize(
    "dtype", [dtypes.BF16, dtypes.F16, dtypes.F64, dtypes.S32, dtypes.U8, dtypes.S64], ids=str
)
@pytest.mark.parametrize("function", ["add", "maximum", "minimum"])
def test_dtypes(dtype: DType, function: str) -> None:
    check((2, 6, 6, 20), [ONE, W(2, 2), W(3, 1, 1, 1), ONE], function, dtype)


def test_several_arrays() -> None:
    """The running maximum and its index."""
    value, place = hlo.Shape(dtypes.F32), hlo.Shape(dtypes.S32)
    a, b, c, d = (hlo.parameter(n, s) for n, s in enumerate([value, place, value, place]))
    less = op("compare", hlo.Shape(dtypes.PRED), a, c, direction="LT", comparison_type="FLOAT")
    pair = [op("select", value, less, c, a), op("select", place, less, d, b)]
    root = hlo.Instruction("tuple", hlo.TupleShape((value, place)), pair)
    shapes = [value.with_dims((5, 12)), place.with_dims((5, 12)), value, place]
    for window in ([ONE, W(3, 1, 1, 1)], [W(5, 1, 4, 0), ONE]):
        i = hlo.Instruction(
            "reduce-window", hlo.TupleShape((shapes[0], shapes[1])),
            [hlo.parameter(n, s) for n, s in enumerate(shapes)], {"window": tuple(window)},
            [hlo.Computation.from_root("larger", [a, b, c, d], root)],
        )  # fmt: skip
        x = np.random.default_rng(0).permutation(60).reshape(5, 12).astype(np.float32)
        numbers = np.arange(60, dtype=np.int32).reshape(5, 12)
        best, where = Kernel(i).run([x, numbers, np.array(-1, np.float32), np.array(-1, np.int32)])
        for at in np.ndindex(5, 12):
            winner = max(positions((5, 12), window, at), key=lambda p: x[p])
            assert best[at] == x[winner]
            assert where[at] == numbers[winner]


def check_select_and_scatter(
    dims: Sequence[int],
    window: Sequence[W],
    dtype: DType = dtypes.F32,
    cpu: str = "host",
    initial: float = 0,
) -> None:
    shape, scalar = hlo.Shape(dtype, tuple(dims)), hlo.Shape(dtype)
    source = hlo.Shape(dtype, outputs(dims, window))
    a, b = hlo.parameter(0, scalar), hlo.parameter(1, scalar)
    greater = op("compare", hlo.Shape(dtypes.PRED), a, b, direction="GE", comparison_type="FLOAT")
    select = hlo.Computation.from_root("ge", [a, b], greater)
    operands = [hlo.parameter(n, s) for n, s in enumerate([shape, source, scalar])]
    i = op(
        "select-and-scatter",
        shape,
        *operands,
        called=[select, body("add", dtype)],
        window=tuple(window),
    )
    generator = np.random.default_rng(2)
    x = generator.integers(-2, 3, dims).astype(dtype.numpy)  # many equal values
    s = generator.integers(-4, 5, source.dims).astype(dtype.numpy)
    expected = np.full(dims, initial, dtype.numpy)
    for at in np.ndindex(*source.dims):
        found = positions(dims, window, at)
        if found:
            expected[max(found, key=lambda p: x[p])] += s[at]
    kernel = Kernel(i, for_cpu(cpu))
    (got,) = kernel.run([x, s, np.array(initial, dtype.numpy)], [kernel.emitted.work_count // 2])
    np.testing.assert_array_equal(got, expected)


POOLS: dict[str, tuple[Sequence[int], Sequence[W]]] = {
    "2x2": ((2, 8, 6, 20), [ONE, W(2, 2), W(2, 2), ONE]),
    "2x2, a rest without a window": ((2, 7, 9, 20), [ONE, W(2, 2), W(2, 2), ONE]),
    "2x2, padded": ((2, 7, 8, 20), [ONE, W(2, 2, 1, 0), W(2, 2, 0, 2), ONE]),
    "gaps between windows": ((2, 9, 11, 20), [ONE, W(2, 3), W(2, 4, 1, 1), ONE]),
    "dilated, disjoint": ((3, 20, 5), [ONE, W(3, 5, 0, 0, window_dilation=2), ONE]),
    "3x3 overlapping": ((2, 7, 9, 64), [ONE, W(3, 2, 1, 1), W(3, 1, 1, 1), ONE]),
    "channels first": ((2, 3, 9, 8), [ONE, ONE, W(2, 2), W(3, 1, 1, 1)]),
    "large window": ((9, 50, 3), [W(9), W(11, 3, 4, 2), ONE]),
    "one dimension": ((30,), [W(4, 3, 1, 1)]),
    "padding only": ((3, 20), [W(2, 1, 4, 4), ONE]),
}


@pytest.mark.parametrize(("name", "cpu"), list(itertools.product(POOLS, ["host", "x86-64-v2"])))
def test_select_and_scatter(name: str, cpu: str) -> None:
    check_select_and_scatter(*POOLS[name], cpu=cpu)
    check_select_and_scatter(*POOLS[name], cpu=cpu, initial=3)


@pytest.mark.parametrize("dtype", [dtypes.BF16, dtypes.F64, dtypes.S32], ids=str)
def test_select_and_scatter_dtypes(dtype: DType) -> None:
    check_select_and_scatter(*POOLS["3x3 overlapping"], dtype=dtype)
