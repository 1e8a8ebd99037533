"""Whether two results are the same but for rounding.

The tolerance is derived, not chosen. A sound implementation has the exact results of inputs that are off by
some roundings of the element type: the error of a sum of n terms grows like sqrt(n) roundings as long as
roundings are independent. So the reference is computed twice in double precision, once with every input off
by as much (:func:`displacement`: sqrt(n) times `eps`, a rounding), and where that moves the results by d,
results may be off by

    4 (sqrt(n) eps max|reference| + d)

(4: standard deviations). For ill-conditioned and chaotic programs d is large by itself. It is not that of inputs that
are off by one rounding, times sqrt(n): the gradient of a network jumps where the input of a ReLU, or the largest of a
pool, is nearer to another side than the roundings of what led to it, and one rounding seldom is enough for that. (In a
training step of ResNet-50 one rounding of the inputs moves some weights of its last block by a rounding, ten move them
by 3,568, and so did the roundings of one of three implementations.) Integers and booleans are exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

EPSILONS: Final = {
    "bfloat16": 2.0**-8,
    "float16": 2.0**-11,
    "float32": 2.0**-24,
    "float64": 2.0**-53,
}
DEVIATIONS: Final = 4.0


def epsilon(dtypes: Sequence[str]) -> float:
    """Half a unit in the last place of the coarsest float type among the names of types; that of f64 where
    there is none.
    """
    parts = {"complex64": "float32", "complex128": "float64"}
    return (
        max((EPSILONS[parts.get(n, n)] for n in dtypes if parts.get(n, n) in EPSILONS), default=0.0)
        or 2.0**-53
    )


def displacement(eps: float, terms: int) -> float:
    """By how much, relatively, the inputs of the second reference are off: the roundings of a sum of ``terms`` terms.
    At least so much that a double is another one.
    """
    return max(math.sqrt(terms) * eps, 2.0**-52)


def disagreement(
    results: Sequence[np.ndarray],
    reference: Sequence[np.ndarray],
    moved: Sequence[np.ndarray],
    eps: float,
    terms: int,
    tolerance: float = 0.0,
) -> str:
    """What is wrong with the results; "" if nothing is. ``moved``: the reference of inputs that are off by
    :func:`displacement`.
    """
    if len(results) != len(reference):
        return f"{len(results)} results, the reference has {len(reference)}"
    for index, (ours, exact, other) in enumerate(zip(results, reference, moved, strict=True)):
        if ours.shape != exact.shape:
            return f"result {index} has the shape {ours.shape}, the reference {exact.shape}"
        if exact.dtype.kind in "iub":
            wrong = int(np.count_nonzero(ours != exact))
            if wrong:
                return f"{wrong} of {exact.size} integers of result {index} differ"
            continue
        if exact.size == 0:
            continue
        finite = np.isfinite(exact)
        if not np.array_equal(np.isfinite(ours), finite):
            return f"result {index} is not finite at other places than the reference"
        difference, size, shift = (
            float(np.max(np.abs(part), where=finite, initial=0.0))
            for part in (ours - exact, exact, other - exact)
        )
        allowed = DEVIATIONS * (math.sqrt(terms) * eps * size + shift) + tolerance * size
        if not difference <= allowed:
            return f"result {index} is off by {difference:.2g}, allowed are {allowed:.2g} (values to {size:.2g})"
    return ""
