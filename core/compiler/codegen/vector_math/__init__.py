"""Elementary functions as branch-free code on vectors: ``FUNCTIONS[name](builder, target, x[, y])
-> value``.

Arguments and results are ``float`` or ``double``, scalars or vectors of any length (f16 and bf16 go
through float). Each function's docstring states its largest error in units in the last place (ulp)
over the whole domain, which the tests measure; special values follow C99 Annex F.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ... import wings
from ...targets.target import Target
from ..llvm_ir import Builder, Value, mangle
from .complex_exponential import complex_cos, complex_exp, complex_expm1, complex_sin
from .complex_logarithm import complex_log, complex_log1p, complex_pow
from .complex_tangent import complex_tanh
from .error_function import erf, erfc
from .exponential import cosh, exp, exp2, expm1, logistic, sinh, tanh
from .inverse_error_function import erf_inv
from .inverse_trigonometric import acos, asin, atan, atan2
from .logarithm import log, log1p
from .power import pow
from .remainder import remainder
from .roots import cbrt, rsqrt
from .trigonometric import cos, sin, tan

FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {
    f.__name__: f
    for f in (
        acos, asin, atan, atan2, cbrt, cos, cosh, erf, erf_inv, erfc, exp, exp2, expm1, log, log1p, logistic, pow,
        remainder, rsqrt, sin, sinh, tan, tanh,
    )
}  # fmt: skip
for _module in wings.parts("functions"):
    FUNCTIONS.update(_module.FUNCTIONS)

# Of complex numbers, as pairs of a real and an imaginary part.
COMPLEX_FUNCTIONS: Final[dict[str, Callable[..., tuple[Value, Value]]]] = {
    f.__name__: f
    for f in (
        complex_cos, complex_exp, complex_expm1, complex_log, complex_log1p, complex_pow, complex_sin, complex_tanh,
    )
}  # fmt: skip


def call(builder: Builder, target: Target, name: str, *arguments: Value) -> Value:
    """``FUNCTIONS[name]`` by calling a function of the module: slower by what a call saves and restores, and small."""
    type_ = arguments[0].type
    function = f"tripont.{name}.{mangle(type_)}"
    if function not in builder.module.functions:
        body = Builder(
            builder.module, function, [a.type for a in arguments], type_, linkage="internal",
            attributes=f"{target.function_attributes} noinline",
        )  # fmt: skip
        body.ret(FUNCTIONS[name](body, target, *body.arguments))
        body.finish()
    return builder.call(type_, function, arguments)
