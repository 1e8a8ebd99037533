"""``lax.ragged_dot`` for the platform ``xpu``: the products of a mixture of experts.

JAX writes it for platforms that it knows nothing of as a product of all rows for each group, with zeros in place of the
rows of other groups. Here it is a composite, which the compiler knows as ``ragged-dot``; what JAX writes is its
decomposition, for other readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from jax.lax import Precision

from . import compat

_COMPOSITE: Final = "tripont.ragged_dot"


def register(platform: str) -> None:
    """Register the rule of this file for ``platform``."""
    primitive, portable = compat.portable_lowering("ragged_dot_general")
    compat.register_lowering(primitive, _lowering(portable), platform)


def _lowering(portable: Callable[..., Any]) -> Callable[..., Any]:
    """The composite where ``ragged-dot`` says what the primitive does, JAX's rule elsewhere."""

    def rule(context: Any, *operands: Any, **parameters: Any) -> Any:
        attributes = _attributes(context.avals_in, parameters)
        if attributes is None:
            return portable(context, *operands, **parameters)
        result = compat.composite(
            context, _COMPOSITE, portable, *operands, attributes=attributes, **parameters
        )
        return [compat.keep_sharding(context, result)]

    return rule


def _attributes(avals: Sequence[Any], parameters: dict[str, Any]) -> dict[str, Any] | None:
    """The composite's attributes; None for sizes that depend on other dimensions or are not known, groups of a batch,
    operands of two dtypes, and ways to multiply that are not a precision.
    """
    lhs, rhs, sizes = avals
    numbers = parameters["ragged_dot_dimension_numbers"]
    (contracting, batch), ragged = numbers.dot_dimension_numbers, numbers.lhs_ragged_dimensions
    precision = parameters["precision"] or (Precision.DEFAULT, Precision.DEFAULT)
    known = all(isinstance(size, int) for aval in avals for size in aval.shape)
    named = isinstance(precision, tuple) and all(isinstance(p, Precision) for p in precision)
    if parameters.get("group_offset") is not None or not (known and named):
        return None
    if len(sizes.shape) != 1 or set(ragged) & set(batch[0]) or lhs.dtype != rhs.dtype:
        return None
    return {
        "lhs_contracting_dimensions": contracting[0],
        "rhs_contracting_dimensions": contracting[1],
        "lhs_batching_dimensions": batch[0],
        "rhs_batching_dimensions": batch[1],
        "lhs_ragged_dimensions": ragged,
        "rhs_group_dimensions": numbers.rhs_group_dimensions,
        "precision": [p.name for p in precision],
    }
