"""Linear algebra for the platform ``xpu``: JAX's own rules for CPUs.

JAX lowers a decomposition for CPUs to a custom call of a LAPACK routine, such as ``lapack_sgeqrf_ffi``, and to the
operations around it that make JAX's semantics of it (NaNs where LAPACK reports a failure, pivots from 0, ...). These
calls are part of what JAX promises to keep (exported programs hold them), and tripont's compiler knows them
(core/compiler/passes/custom_calls.py). So the rules are registered for ``xpu`` as they are.

``cholesky`` and ``triangular_solve`` keep their portable lowerings: StableHLO has operations for them.
"""

from __future__ import annotations

from typing import Any

from . import compat

#: Primitives whose CPU rules are ours too.
FROM_CPU: tuple[str, ...] = (
    "eig",
    "eigh",
    "geqp3",
    "geqrf",
    "hessenberg",
    "householder_product",
    "lu",
    "ormqr",
    "schur",
    "svd",
    "tridiagonal",
    "tridiagonal_solve",
)


def _lu_pivots_to_permutation(context: Any, pivots: Any, *, permutation_size: int) -> Any:
    """One call, where JAX's portable lowering is a loop over the pivots.

    Not in a program that is exported: JAX lets those call only what it promises to keep.
    """
    if compat.is_for_export(context):
        rule = compat.portable_rule(compat.lu_pivots_to_permutation_primitive())
        return rule(context, pivots, permutation_size=permutation_size)
    rule = compat.batched_call_lowering("tripont.lu_pivots_to_permutation", dimensions=1)
    return rule(context, pivots)


def register(platform: str) -> None:
    """Register the rules for ``platform``.

    Raises RuntimeError if JAX has no CPU rule for one of :data:`FROM_CPU`, after registering all others.
    """
    rules = compat.lowerings_of("cpu")
    missing = []
    for name in FROM_CPU:
        if name in rules:
            primitive, rule = rules[name]
            compat.register_lowering(primitive, rule, platform)
        else:
            missing.append(name)
    compat.register_lowering(
        compat.lu_pivots_to_permutation_primitive(), _lu_pivots_to_permutation, platform
    )
    if missing:
        raise RuntimeError(f"no CPU lowering of {', '.join(missing)}")
