"""Elementary functions, which are elementwise ops of one or two operands of one shape."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ..codegen.elements import complex_math
from ..codegen.elements import elementwise as code
from ..codegen.elements.complex_math import function, vector_function
from ..importer import hlo_instructions, ops_elementwise, result_accuracy
from ..ir.registry import (
    AS_IT_STANDS,
    ROUNDED,
    WORTH,
    CallReader,
    ElementRule,
    Evaluation,
    Price,
    both,
    register,
)
from ..ir.shape_rules import same_shape
from ..reference import elementwise as reference

_REAL: Final = ("float",)


def _register(
    name: str,
    evaluate: Evaluation,
    price: Price,
    generate: ElementRule,
    generate_complex: ElementRule | None = None,
    **parts: Any,
) -> None:
    """A function of one operand. With ``ulps`` StableHLO has it, and programs may ask for an accuracy."""
    spelled = name.replace("-", "_")
    if "ulps" in parts:
        parts.setdefault("read", both(**{spelled: result_accuracy.read_function(name)}))
        parts["from_hlo"] = hlo_instructions.function(name)
    parts = {
        "operands": 1,
        "kinds": _REAL if generate_complex is None else (*_REAL, "complex"),
        "shape": same_shape,
        "transcendental": True,
        "error": 4.0,
        **parts,
    }
    register(
        name,
        elementwise=True,
        evaluate=reference.wide(evaluate),
        generate=generate,
        generate_complex=generate_complex,
        price=price,
        **parts,
    )


def _register_chlo(
    name: str, evaluate: Evaluation, price: Price, generate: ElementRule, **parts: Any
) -> None:
    """A function of one real operand that only CHLO has."""
    parts.setdefault("read", {f"chlo.{name}": ops_elementwise.read_real(name)})
    calls = {f"tripont.{name}": ops_elementwise.call(name), **parts.pop("calls", {})}
    composites = {f"chlo.{name}": ops_elementwise.call(name)}
    _register(name, evaluate, price, generate, calls=calls, composites=composites, **parts)


def _of_complex(name: str) -> dict[str, CallReader]:
    """The composite that JAX makes of a function of complex numbers, which clients would expand."""
    return {f"tripont.{name.replace('-', '_')}": ops_elementwise.call(name)}


# fmt: off
# Reference, price, code for real numbers, code for complex ones.
_register(
    "exponential", np.exp, Price(10.0, 1.5), code.math("exp"), vector_function("complex_exp"), ulps=1, hoisting=WORTH
)
_register(
    "exponential-minus-one", np.expm1, Price(16.0, 2.2), code.math("expm1"), vector_function("complex_expm1"), ulps=2
)
_register(
    "log", np.log, Price(10.0, 3.5), code.math("log"), vector_function("complex_log"),
    ulps=1, hoisting=WORTH, composites=_of_complex("log"),
)
_register(
    "log-plus-one", np.log1p, Price(16.0, 3.5), code.math("log1p"), vector_function("complex_log1p"),
    ulps=2, composites=_of_complex("log-plus-one"),
)
_register(
    "sqrt", np.sqrt, Price(5.0, 1.0), code.intrinsic("sqrt"), function(lambda r, x: r.sqrt_complex(x)),
    ulps=1, error=ROUNDED, hoisting=WORTH, composites=_of_complex("sqrt"),
)
_register(
    "rsqrt", lambda x: 1 / np.sqrt(x), Price(5.0, 1.0), code.math("rsqrt"), function(complex_math.rsqrt),
    ulps=1, hoisting=WORTH, composites=_of_complex("rsqrt"),
)
_register("cbrt", reference.cbrt, Price(16.0, 6.0), code.math("cbrt"), function(complex_math.cbrt), ulps=1)
_register(
    "tanh", np.tanh, Price(16.0, 2.2), code.math("tanh"), vector_function("complex_tanh"),
    ulps=3, is_bounded=True, hoisting=WORTH,
)
_register(
    "tan", np.tan, Price(16.0, 14.0), code.math("tan"), function(complex_math.tan),
    ulps=1, read=both(tan=result_accuracy.read_function("tan")) | {"chlo.tan": AS_IT_STANDS},
    calls={"mhlo.tan": ops_elementwise.call("tan")}, composites={"chlo.tan": ops_elementwise.call("tan")},
)
_register(
    "sine", np.sin, Price(16.0, 6.0), code.math("sin"), vector_function("complex_sin"),
    ulps=1, is_bounded=True, hoisting=WORTH,
)
_register(
    "cosine", np.cos, Price(16.0, 6.0), code.math("cos"), vector_function("complex_cos"),
    ulps=1, is_bounded=True, hoisting=WORTH,
)
_register(
    "logistic", reference.logistic, Price(10.0, 2.2), code.math("logistic"), function(complex_math.logistic),
    ulps=3, is_bounded=True, hoisting=WORTH, composites=_of_complex("logistic"),
)
_register_chlo("sinh", np.sinh, Price(16.0, 6.0), code.math("sinh"), hoisting=WORTH)
_register_chlo("cosh", np.cosh, Price(16.0, 6.0), code.math("cosh"), hoisting=WORTH)
_register_chlo("asin", np.arcsin, Price(16.0, 18.0), code.math("asin"), hoisting=WORTH)
_register_chlo("acos", np.arccos, Price(16.0, 18.0), code.math("acos"), hoisting=WORTH)
_register_chlo(
    "erf", reference.by_element(math.erf), Price(16.0, 3.5), code.math("erf"),
    hoisting=WORTH, read=both(erf=AS_IT_STANDS) | {"chlo.erf": AS_IT_STANDS},
    calls={"mhlo.erf": ops_elementwise.call("erf")},
)
_register(
    "atan2", reference.atan2, Price(16.0, 18.0), code.math("atan2"), function(complex_math.atan2), operands=2,
    read=both(atan2=AS_IT_STANDS) | {"chlo.broadcast_atan2": ops_elementwise.broadcasting("atan2")},
)
# fmt: on
register(
    "power",
    operands=2,
    elementwise=True,
    kinds=("int", "uint", "float", "complex"),
    shape=same_shape,
    evaluate=reference.power,
    read=both(power=AS_IT_STANDS) | {"chlo.broadcast_power": ops_elementwise.broadcasting("power")},
    generate=code.of_power,
    generate_complex=complex_math.of_power,
    price=Price(30.0, 20.0, of_integers=Price(30.0, 4.0)),
    transcendental=True,
    error=4.0,
    hoisting=WORTH,
)
