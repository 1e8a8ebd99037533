"""The series of the special functions, for generators to find by name (:data:`..codegen.vector_math.FUNCTIONS`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..codegen.llvm_ir import Value
from ..codegen.vector_math.gamma import digamma, lgamma
from ..codegen.vector_math.incomplete import igamma, igammac
from ..codegen.vector_math.incomplete_beta import betainc
from ..codegen.vector_math.incomplete_slope import igamma_grad_a
from ..codegen.vector_math.zeta import polygamma, zeta

FUNCTIONS: Final[dict[str, Callable[..., Value]]] = {
    f.__name__: f
    for f in (betainc, digamma, igamma, igamma_grad_a, igammac, lgamma, polygamma, zeta)
}

__all__ = ["FUNCTIONS"]
