"""Calls in child processes, which they may end."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.fuzz import children
from tests.scan.call import Call

# Of the CPU, which no call of a scan takes unless it does not end.
SECONDS = 60.0
# Of memory: several times what any call takes that is not out of hand.
MEMORY = 8 << 30
WHOLE = "whole"  # stands for all ways of a call whose process ended


def findings(
    calls: Sequence[Call],
    seconds: float = SECONDS,
    record: Path | None = None,
    memory: int = MEMORY,
) -> Iterator[tuple[str, str]]:
    """The name of each call and way that differs, ``name [way]``, and how. The process must have no device yet.

    ``memory``: the bytes that a child may allocate. ``record``: a file to which each call that was tried is added with
    its findings; calls that it has are not tried.
    """
    tried = _read(record) if record and record.exists() else {}
    for name, found in tried.items():
        yield from _named(name, found)
    left = [call for call in calls if call.name not in tried]

    def check(index: int) -> str:
        return json.dumps(left[index].findings())

    for index, said in children.outcomes(range(len(left)), check, seconds, memory=memory):
        call = left[index]
        try:
            found = json.loads(said)
        except ValueError:  # the process ended or hung, or the comparison failed
            found = _of_ended(call, said, seconds, memory)
        if record:
            with record.open("a") as file:
                file.write(json.dumps([call.name, found]) + "\n")
        yield from _named(call.name, found)


def _named(name: str, found: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((f"{name} [{way}]", what) for way, what in found.items())


def _read(record: Path) -> dict[str, dict[str, str]]:
    """By the name of a call: its findings. A last line that was not written to its end leaves the file."""
    whole, _, rest = record.read_text().rpartition("\n")
    if rest:
        record.write_text(whole + "\n" if whole else "")
    return dict(json.loads(line) for line in whole.splitlines())


def _of_ended(call: Call, said: str, seconds: float, memory: int) -> dict[str, str]:
    """What is found of a call that ended its process: the CPU's own end is not the device's."""
    if not said.startswith(("ends", "hangs")):
        return {WHOLE: said}
    if call.shared:
        return call.ends(lambda compute: children.outcome(compute, seconds, memory))
    alone = children.outcome(call.on_device, seconds, memory)
    return {WHOLE: alone} if alone else {}
