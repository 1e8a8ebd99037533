"""Calls in child processes, which they may end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from tests.fuzz import children
from tests.scan.call import Call

# Of the CPU, which no call of a scan takes unless it does not end.
SECONDS = 60.0
WHOLE = "whole"  # stands for all ways of a call whose process ended


def findings(calls: Sequence[Call], seconds: float = SECONDS) -> Iterator[tuple[str, str]]:
    """The name of each call and way that differs, ``name [way]``, and how. The process must have no device yet."""

    def check(index: int) -> str:
        return json.dumps(calls[index].findings())

    for index, said in children.outcomes(range(len(calls)), check, seconds):
        call = calls[index]
        try:
            found = json.loads(said)
        except ValueError:  # the process ended or hung, or the comparison failed
            found = _of_ended(call, said, seconds)
        for way, what in found.items():
            yield f"{call.name} [{way}]", what


def _of_ended(call: Call, said: str, seconds: float) -> dict[str, str]:
    """What is found of a call that ended its process: the CPU's own end is not the device's."""
    if said.startswith(("ends", "hangs")):
        alone = children.outcome(call.on_device, seconds)
        return {WHOLE: alone} if alone else {}
    return {WHOLE: said}
