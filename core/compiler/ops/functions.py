"""Elementary functions, which are elementwise ops of one or two operands of one shape."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..importer import ops_elementwise, result_accuracy
from ..ir.registry import (
    AS_IT_STANDS,
    ROUNDED,
    WORTH,
    CallReader,
    Evaluation,
    Price,
    both,
    register,
)
from ..ir.shape_rules import same_shape
from ..reference import elementwise as reference

_REAL: Final = ("float",)
_ANY: Final = ("float", "complex")


def _register(
    name: str, evaluate: Evaluation, price: Price, kinds: tuple[str, ...] = _ANY, **parts: Any
) -> None:
    """A function of one operand. With ``ulps`` StableHLO has it, and programs may ask for an accuracy."""
    spelled = name.replace("-", "_")
    if "ulps" in parts:
        parts.setdefault("read", both(**{spelled: result_accuracy.read_function(name)}))
    parts = {"operands": 1, "shape": same_shape, "transcendental": True, "error": 4.0, **parts}
    register(
        name, elementwise=True, evaluate=reference.wide(evaluate), price=price, kinds=kinds, **parts
    )


def _register_chlo(name: str, evaluate: Evaluation, price: Price, **parts: Any) -> None:
    """A function of one real operand that only CHLO has."""
    parts.setdefault("read", {f"chlo.{name}": ops_elementwise.read_real(name)})
    calls = {f"tripont.{name}": ops_elementwise.call(name), **parts.pop("calls", {})}
    composites = {f"chlo.{name}": ops_elementwise.call(name)}
    _register(name, evaluate, price, _REAL, calls=calls, composites=composites, **parts)


def _of_complex(name: str) -> dict[str, CallReader]:
    """The composite that JAX makes of a function of complex numbers, which clients would expand."""
    return {f"tripont.{name.replace('-', '_')}": ops_elementwise.call(name)}


_register("exponential", np.exp, Price(10.0, 1.5), ulps=1, hoisting=WORTH)
_register("exponential-minus-one", np.expm1, Price(16.0, 2.2), ulps=2)
_register("log", np.log, Price(10.0, 3.5), ulps=1, hoisting=WORTH, composites=_of_complex("log"))
_register(
    *("log-plus-one", np.log1p, Price(16.0, 3.5)), ulps=2, composites=_of_complex("log-plus-one")
)
_register(
    *("sqrt", np.sqrt, Price(5.0, 1.0)),
    ulps=1, error=ROUNDED, hoisting=WORTH, composites=_of_complex("sqrt"),
)  # fmt: skip
_register(
    *("rsqrt", lambda x: 1 / np.sqrt(x), Price(5.0, 1.0)),
    ulps=1, hoisting=WORTH, composites=_of_complex("rsqrt"),
)  # fmt: skip
_register("cbrt", reference.cbrt, Price(16.0, 6.0), ulps=1)
_register("tanh", np.tanh, Price(16.0, 2.2), ulps=3, is_bounded=True, hoisting=WORTH)
_register(
    *("tan", np.tan, Price(16.0, 9.0)),
    ulps=1,
    read=both(tan=result_accuracy.read_function("tan")) | {"chlo.tan": AS_IT_STANDS},
    calls={"mhlo.tan": ops_elementwise.call("tan")},
    composites={"chlo.tan": ops_elementwise.call("tan")},
)
_register("sine", np.sin, Price(16.0, 6.0), ulps=1, is_bounded=True, hoisting=WORTH)
_register("cosine", np.cos, Price(16.0, 6.0), ulps=1, is_bounded=True, hoisting=WORTH)
_register(
    *("logistic", reference.logistic, Price(10.0, 2.2)),
    ulps=3, is_bounded=True, hoisting=WORTH, composites=_of_complex("logistic"),
)  # fmt: skip
_register_chlo("sinh", np.sinh, Price(16.0, 6.0), hoisting=WORTH)
_register_chlo("cosh", np.cosh, Price(16.0, 6.0), hoisting=WORTH)
_register_chlo("asin", np.arcsin, Price(16.0, 9.0), hoisting=WORTH)
_register_chlo("acos", np.arccos, Price(16.0, 9.0), hoisting=WORTH)
_register_chlo(
    *("erf", reference.by_element(math.erf), Price(16.0, 3.5)),
    hoisting=WORTH,
    read=both(erf=AS_IT_STANDS) | {"chlo.erf": AS_IT_STANDS},
    calls={"mhlo.erf": ops_elementwise.call("erf")},
)
register(
    "power",
    operands=2,
    elementwise=True,
    kinds=("int", "uint", "float", "complex"),
    shape=same_shape,
    evaluate=reference.power,
    read=both(power=AS_IT_STANDS) | {"chlo.broadcast_power": ops_elementwise.broadcasting("power")},
    price=Price(30.0, 8.0, of_integers=Price(30.0, 4.0)),
    transcendental=True,
    error=4.0,
    hoisting=WORTH,
)
_register(
    *("atan2", reference.atan2, Price(16.0, 9.0)),
    operands=2,
    read=both(atan2=AS_IT_STANDS) | {"chlo.broadcast_atan2": ops_elementwise.broadcasting("atan2")},
)
