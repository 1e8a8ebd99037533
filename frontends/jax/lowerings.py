"""Lowerings of JAX primitives for the platform ``xpu``.

JAX lowers most primitives to StableHLO for every platform. A few have a rule only for the platforms that JAX ships
(they need host callbacks or LAPACK). :mod:`.linalg` has those of linear algebra. Each of the other primitives gets a
rule here that says so when a program uses it, and what to do instead: JAX's own message names only the primitive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from . import compat

_SPARSE = "JAX's experimental sparse kernels are not supported"

#: Why a primitive is missing on this platform. `tests/frontends/jax/test_lowerings.py` compares this list with JAX's.
MISSING: dict[str, str] = {
    "csr_spmm": _SPARSE,
    "csr_spmv": _SPARSE,
    "coo_spmm": _SPARSE,
    "coo_spmv": _SPARSE,
    "scaled_matmul": "jax.nn.scaled_matmul has no portable form in this version of JAX",
}

#: Primitives whose rule is portable StableHLO, though JAX registers it for GPUs alone.
OF_GPUS_BUT_PORTABLE: frozenset[str] = frozenset(["pbroadcast"])


def _refuse(name: str, reason: str, platform: str) -> Callable[..., Any]:
    def rule(context: Any, *operands: Any, **parameters: Any) -> Any:
        shapes = ", ".join(str(aval) for aval in context.avals_in)
        raise NotImplementedError(
            f"'{name}' of ({shapes}) on '{platform}': {reason}. Run this part on the CPU: "
            "`with jax.default_device(jax.devices('cpu')[0]): ...`, or set JAX_PLATFORMS=cpu"
        )

    return rule


def _power_of_two(context: Any, x: Any) -> Any:
    """2^x as such: JAX writes e^(x ln 2), whose rounded argument costs up to 67 (f32) and 600 (f64) ulps."""
    return stablehlo.power(compat.splat(context, 2.0), x)


def _logistic(context: Any, x: Any) -> Any:
    """JAX writes 1 / (1 + e^-x), which is 0 where logistic is a denormal number."""
    return stablehlo.logistic(x)


#: Elementwise primitives that StableHLO can say more exactly than JAX's rules for all platforms do. Real numbers only.
DIRECT: dict[str, Callable[[Any, Any], Any]] = {"exp2": _power_of_two, "logistic": _logistic}


def _direct(build: Callable[[Any, Any], Any], portable: Callable[..., Any]) -> Callable[..., Any]:
    def rule(context: Any, x: Any, **parameters: Any) -> Any:
        if np.issubdtype(context.avals_in[0].dtype, np.complexfloating):
            return portable(context, x, **parameters)
        return [compat.keep_sharding(context, build(context, x))]

    return rule


#: Primitives of complex numbers that are operations of ours, by the composites that keep them: what the client or JAX
#: expands them into has other signs of zeros, loses what is infinite, and (sinh, cosh) all digits of small numbers.
#: (Not exp, sin and cos, which lose nothing: JAX's tests want NaN where both parts are infinite, and not C99's values.)
OF_COMPLEX: dict[str, str] = {
    "log": "tripont.log",
    "log1p": "tripont.log_plus_one",
    "logistic": "tripont.logistic",
    "sqrt": "tripont.sqrt",
    "rsqrt": "tripont.rsqrt",
    "sinh": "chlo.sinh",
    "cosh": "chlo.cosh",
}


#: Elementwise primitives of real numbers that are operations of ours, and that the client would expand.
COMPOSITES: dict[str, str] = {
    **{name: f"chlo.{name}" for name in ("erf_inv", "erfc", "lgamma", "digamma")},
    **{name: f"chlo.{name}" for name in ("zeta", "polygamma")},
    **{name: f"tripont.{name}" for name in ("igamma", "igammac", "igamma_grad_a")},
    "regularized_incomplete_beta": "tripont.regularized_incomplete_beta",
}


def _kept(
    name: str, portable: Callable[..., Any], complex_only: bool = False
) -> Callable[..., Any]:
    """The composite of that name for operands of the result's type, the portable rule for others.

    And for sizes that are not known yet (jax.export with symbolic shapes), which nobody fills into a composite's
    function.
    """

    def rule(context: Any, *operands: Any, **parameters: Any) -> Any:
        types = {(aval.shape, aval.dtype) for aval in [*context.avals_in, *context.avals_out]}
        is_complex = np.issubdtype(context.avals_in[0].dtype, np.complexfloating)
        symbolic = not all(isinstance(size, int) for shape, _ in types for size in shape)
        if len(types) > 1 or symbolic or is_complex < complex_only:
            return portable(context, *operands, **parameters)
        result = compat.composite(context, name, portable, *operands, **parameters)
        return [compat.keep_sharding(context, result)]

    return rule


def register(platform: str) -> None:
    """Register the rules of this file for ``platform``."""
    for name, composite in COMPOSITES.items():
        primitive, portable = compat.portable_lowering(name)
        compat.register_lowering(primitive, _kept(composite, portable), platform)
    for name in {**DIRECT, **OF_COMPLEX}:
        primitive, rule = compat.portable_lowering(name)
        if name in OF_COMPLEX:
            rule = _kept(OF_COMPLEX[name], rule, complex_only=True)
        if name in DIRECT:
            rule = _direct(DIRECT[name], rule)
        compat.register_lowering(primitive, rule, platform)
    for name, (primitive, rule) in compat.lowerings_of("cuda").items():
        if name in OF_GPUS_BUT_PORTABLE:
            compat.register_lowering(primitive, rule, platform)
    for name, primitive in compat.primitives_without_lowering(platform).items():
        if name in MISSING:
            compat.register_lowering(primitive, _refuse(name, MISSING[name], platform), platform)
