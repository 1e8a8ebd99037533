"""A number that is read back computes all that has been recorded, and not the way to this number alone.

``x.item()``, ``bool(x)`` and ``if x:`` need one element, and torch_xla runs a program that computes just that. All
else stays recorded: a loop that reads a number in each step (a solver's error, whether ``generate()`` of transformers
has reached an end) records a history that grows, and each number is a new program that computes all steps from the
first on. The twelfth token of a small GPT-2 was a program of 6,300 instructions. torch_xla has the way out among its
experiments, ``early_sync``: such a reading computes every tensor that is alive, so that each step is a program of its
own, and the same program where shapes stay. :func:`install` turns it on.

It stays off in jobs of several devices: a device that alone reads a number would run the collectives that are recorded
in another program than the others do. If the user has set ``XLA_EXPERIMENTAL``, to an empty text even, it
stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import Final

VARIABLE: Final = "XLA_EXPERIMENTAL"
_EXPERIMENT: Final = "early_sync"
# A second name, which torch_xla does not know, says who has set the variable: child processes inherit it.
_OURS: Final = f"{_EXPERIMENT}:tripont"


def install(environment: MutableMapping[str, str] = os.environ) -> None:
    """Turn it on where it is safe. torch_xla reads the variable when it first needs it, not while it is imported."""
    if environment.get(VARIABLE, _OURS) != _OURS:
        return
    if _devices(environment) == 1:
        environment[VARIABLE] = _OURS
    else:
        environment.pop(VARIABLE, None)


def others(environment: Mapping[str, str] = os.environ) -> str:
    """The experiments that are on besides this one, as the variable has them; empty if there are none."""
    chosen = environment.get(VARIABLE, "")
    return "" if set(chosen.split(":")) <= {"", *_OURS.split(":")} else chosen


def _devices(environment: Mapping[str, str]) -> int:
    """How many devices the job has; 0 if a variable has something else than a number, which others complain of."""
    try:
        return int(environment.get("WORLD_SIZE", "1")) * int(
            environment.get("TRIPONT_NUM_DEVICES", "1") or "1"
        )
    except ValueError:
        return 0
