"""Special functions: elementwise ops that HLO does not have (it has erf alone).

Where HLO is written, a custom call stands for each: ``tripont.zeta``. The rest of the compiler knows none of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..codegen.elements import elementwise as code
from ..formats.hlo_proto import call_fields
from ..importer import ops_elementwise
from ..ir.registry import SLOWLY, WORTH, Price, register
from ..ir.shape_rules import same_shape
from ..reference import elementwise as reference
from ..reference import gamma, incomplete


def _register(
    name: str,
    evaluate: Callable[..., float],
    nanoseconds: float,
    operands: int = 1,
    of_jax: bool = False,
    generated: str = "",
    **parts: Any,
) -> None:
    """A function of real numbers that CHLO has, or JAX alone (``of_jax``)."""
    spelled = name.replace("-", "_")
    target, call = f"tripont.{spelled}", ops_elementwise.call(name)
    register(
        name,
        operands=operands,
        elementwise=True,
        kinds=("float",),
        shape=same_shape,
        evaluate=reference.wide(reference.by_element(evaluate)),
        read={} if of_jax else {f"chlo.{spelled}": ops_elementwise.read_real(name)},
        calls={target: call},
        composites={target if of_jax else f"chlo.{spelled}": call},
        generate=code.math(generated or spelled),
        fields=call_fields(target),
        hlo_call=target,
        price=Price(16.0, nanoseconds),
        transcendental=True,
        error=64.0,
        hoisting=WORTH,
        **parts,
    )


_register("erfc", math.erfc, 6.0)
_register("erf-inv", reference.erf_inv, 6.0, folding=SLOWLY)
_register("lgamma", gamma.lgamma, 60.0, folding=SLOWLY)  # four times that below 0
_register("digamma", gamma.digamma, 60.0, folding=SLOWLY)
_register("zeta", gamma.zeta, 1500.0, 2, folding=SLOWLY)
_register("polygamma", gamma.polygamma, 1500.0, 2, folding=SLOWLY)
_register("igamma", incomplete.igamma, 1500.0, 2, of_jax=True, folding=SLOWLY)
_register("igammac", incomplete.igammac, 1500.0, 2, of_jax=True, folding=SLOWLY)
_register("igamma-grad-a", incomplete.igamma_grad_a, 1500.0, 2, of_jax=True, folding=SLOWLY)
_register(
    "regularized-incomplete-beta",
    incomplete.betainc,
    1500.0,
    3,
    generated="betainc",
    of_jax=True,
    folding=SLOWLY,
)  # a, b, x
