"""Functions of f16 and bf16 at every one of their 65,536 arguments: computed in f32 and rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.conformance.device import compile_program, run
from tests.conformance.programs import tensor

Array = np.ndarray[Any, Any]


def _rsqrt(x: Array) -> Array:
    return np.asarray(np.where(x == 0, np.copysign(np.inf, x), 1 / np.sqrt(x)))


def _logistic(x: Array) -> Array:
    return np.asarray(np.exp(np.minimum(x, 0)) / (1 + np.exp(-np.abs(x))))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "stablehlo.exponential": np.exp,
    "stablehlo.exponential_minus_one": np.expm1,
    "stablehlo.log": np.log,
    "stablehlo.log_plus_one": np.log1p,
    "stablehlo.sine": np.sin,
    "stablehlo.cosine": np.cos,
    "stablehlo.tan": np.tan,
    "stablehlo.tanh": np.tanh,
    "stablehlo.logistic": _logistic,
    "stablehlo.sqrt": np.sqrt,
    "stablehlo.rsqrt": _rsqrt,
    "stablehlo.cbrt": np.cbrt,
    "chlo.asin": np.arcsin,
    "chlo.acos": np.arccos,
    "chlo.sinh": np.sinh,
    "chlo.cosh": np.cosh,
    "chlo.erf": np.vectorize(math.erf),
    "chlo.erfc": np.vectorize(math.erfc),
}


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_every_argument(dtype: str) -> None:
    """All functions in one program, within 0.51 units in the last place."""
    number: Any = np.float16 if dtype == "f16" else ml_dtypes.bfloat16
    form = ml_dtypes.finfo(number)
    x = np.arange(1 << 16, dtype=np.uint16).view(number)
    t = tensor(dtype, x.size)
    lines = []
    for i, op in enumerate(FUNCTIONS):
        kind = f"{t} -> {t}" if op.startswith("chlo") else t
        lines.append(f"%v{i} = {op} %0 : {kind}")
    names = ", ".join(f"%v{i}" for i in range(len(FUNCTIONS)))
    types = ", ".join([t] * len(FUNCTIONS))
    program = f"func.func @main(%0: {t}) -> ({types}) {{\n" + "\n".join(lines)
    results = run(compile_program(f"{program}\nreturn {names} : {types}\n}}\n"), [x])
    for (op, reference), got in zip(FUNCTIONS.items(), results, strict=True):
        with np.errstate(all="ignore"):
            exact = reference(x.astype(np.float64))
            rounded = exact.astype(number).astype(np.float64)
            _, exponent = np.frexp(exact)
            unit = np.ldexp(1.0, np.maximum(exponent - 1, form.minexp) - form.nmant)
            value = got.astype(np.float64)
            error = np.where(np.isfinite(rounded), np.abs(value - exact) / unit, 0)
        same_kind = (np.isnan(value) & np.isnan(rounded)) | (value == rounded) | (error <= 0.51)
        wrong = np.flatnonzero(~same_kind)
        assert not wrong.size, f"{op}({x[wrong[0]]}) = {got[wrong[0]]}, not {exact[wrong[0]]}"
