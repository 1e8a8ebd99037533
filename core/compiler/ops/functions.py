"""Elementary functions, which are elementwise ops of one or two operands of one shape."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..ir.registry import ROUNDED, WORTH, Evaluation, Price, register
from ..ir.shape_rules import same_shape
from ..reference import elementwise as reference

_REAL: Final = ("float",)
_ANY: Final = ("float", "complex")


def _register(
    name: str, evaluate: Evaluation, price: Price, kinds: tuple[str, ...] = _ANY, **parts: Any
) -> None:
    parts = {"operands": 1, "shape": same_shape, "transcendental": True, "error": 4.0, **parts}
    register(
        name, elementwise=True, evaluate=reference.wide(evaluate), price=price, kinds=kinds, **parts
    )


_register("exponential", np.exp, Price(10.0, 1.5), hoisting=WORTH)
_register("exponential-minus-one", np.expm1, Price(16.0, 2.2))
_register("log", np.log, Price(10.0, 3.5), hoisting=WORTH)
_register("log-plus-one", np.log1p, Price(16.0, 3.5))
_register("sqrt", np.sqrt, Price(5.0, 1.0), error=ROUNDED, hoisting=WORTH)
_register("rsqrt", lambda x: 1 / np.sqrt(x), Price(5.0, 1.0), hoisting=WORTH)
_register("cbrt", reference.cbrt, Price(16.0, 6.0))
_register("tanh", np.tanh, Price(16.0, 2.2), hoisting=WORTH)
_register("tan", np.tan, Price(16.0, 9.0))
_register("sine", np.sin, Price(16.0, 6.0), hoisting=WORTH)
_register("cosine", np.cos, Price(16.0, 6.0), hoisting=WORTH)
_register("sinh", np.sinh, Price(16.0, 6.0), _REAL, hoisting=WORTH)
_register("cosh", np.cosh, Price(16.0, 6.0), _REAL, hoisting=WORTH)
_register("asin", np.arcsin, Price(16.0, 9.0), _REAL, hoisting=WORTH)
_register("acos", np.arccos, Price(16.0, 9.0), _REAL, hoisting=WORTH)
_register("logistic", reference.logistic, Price(10.0, 2.2), hoisting=WORTH)
_register("erf", reference.by_element(math.erf), Price(16.0, 3.5), _REAL, hoisting=WORTH)
register(
    "power",
    operands=2,
    elementwise=True,
    kinds=("int", "uint", "float", "complex"),
    shape=same_shape,
    evaluate=reference.power,
    price=Price(30.0, 8.0, of_integers=Price(30.0, 4.0)),
    transcendental=True,
    error=4.0,
    hoisting=WORTH,
)
_register("atan2", reference.atan2, Price(16.0, 9.0), operands=2)
