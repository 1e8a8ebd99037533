"""argmax and argmin over numbers with several NaNs: the first one's position, as NumPy has it."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance import device
from tests.conformance.programs import dense, function, tensor


def _program(dtype: DType, dims: tuple[int, ...], over: int, direction: str) -> str:
    """What JAX makes of ``argmax`` (``GT``) and ``argmin`` (``LT``), and XLA (``GE`` and ``LE``)."""
    t, i = tensor(dtype, *dims), tensor("s32", *dims)
    s, n, p = tensor(dtype), tensor("s32"), tensor("pred")
    kept = [d for k, d in enumerate(dims) if k != over]
    values, places = tensor(dtype, *kept), tensor("s32", *kept)
    worst = "0xFF800000" if direction in ("GT", "GE") else "0x7F800000"
    if direction in ("GT", "LT"):
        body = f"""%2 = stablehlo.compare NE, %a, %a : ({s}, {s}) -> {p}
%3 = stablehlo.or %1, %2 : {p}
%5 = stablehlo.compare LT, %k, %l : ({n}, {n}) -> {p}
%6 = stablehlo.and %4, %5 : {p}
%7 = stablehlo.or %3, %6 : {p}
%8 = stablehlo.select %3, %a, %b : {p}, {s}
%9 = stablehlo.select %7, %k, %l : {p}, {n}"""
    else:
        body = f"""%8 = stablehlo.select %1, %a, %b : {p}, {s}
%5 = stablehlo.select %1, %k, %l : {p}, {n}
%6 = stablehlo.minimum %k, %l : {n}
%9 = stablehlo.select %4, %6, %5 : {p}, {n}"""
    return function(
        [t],
        [places],
        f"""%i = stablehlo.iota dim = {over} : {i}
%w = stablehlo.constant dense<{worst}> : {tensor("f32")}
%v = stablehlo.convert %w : ({tensor("f32")}) -> {s}
%z = stablehlo.constant dense<0> : {n}
%q:2 = "stablehlo.reduce"(%0, %i, %v, %z) <{{dimensions = {dense([over])}}}> ({{
^bb0(%a: {s}, %k: {n}, %b: {s}, %l: {n}):
%1 = stablehlo.compare {direction}, %a, %b : ({s}, {s}) -> {p}
%4 = stablehlo.compare EQ, %a, %b : ({s}, {s}) -> {p}
{body}
stablehlo.return %8, %9 : {s}, {n}
}}) : ({t}, {i}, {s}, {n}) -> ({values}, {places})
%r = stablehlo.reverse %q#1, dims = [] : {places}""",
    )


@pytest.mark.parametrize("dtype", [dtypes.F32, dtypes.F64, dtypes.BF16, dtypes.F8E5M2], ids=str)
@pytest.mark.parametrize("dims", [(15,), (300,), (6, 90), (4096,)], ids=str)
@pytest.mark.parametrize("direction", ["GT", "LT", "GE", "LE"])
def test_first_nan_wins(dtype: DType, dims: tuple[int, ...], direction: str) -> None:
    numpy = np.argmax if direction in ("GT", "GE") else np.argmin
    for over in range(len(dims)):
        executable = device.compile_program(_program(dtype, dims, over, direction))
        for count in (0, 1, 2, 5):
            rng = np.random.default_rng(count)
            x = rng.standard_normal(dims).astype(dtype.numpy)
            x.reshape(-1)[rng.integers(0, x.size, count * len(dims) ** 4)] = np.nan
            (actual,) = device.run(executable, [x])
            np.testing.assert_array_equal(actual, numpy(x.astype(np.float64), axis=over))
