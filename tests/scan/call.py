"""A call of a scan, and what it gives on a device and on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from tests.scan.judge import Array, Outcome, differences

Way = Callable[[], Outcome]
_LONGEST: Final = 300  # characters of a finding


@dataclass(frozen=True)
class Call:
    """``cpu`` is what is right, and so is ``precise``, in float64, where there is one. ``ways``: by their names, the
    ways in which the device computes it. ``peer``: what XLA's own CPU backend gives for the same program, where that
    is not ``cpu``: a difference that it shares belongs to the bridge to XLA, and not to the device.
    """

    name: str
    cpu: Way
    ways: Mapping[str, Way]
    precise: Way | None = None
    peer: Way | None = None
    each: bool = False  # whether elements are judged by themselves (judge.differences)

    def findings(self) -> dict[str, str]:
        """By the name of the way: how it differs from the CPU. Ways that do not differ have no entry."""
        cpu = self.cpu()
        found = {}
        for name, way in self.ways.items():
            actual = way()
            what = differences(actual, cpu, None, self.each)
            if what and self.precise is not None:
                what = differences(actual, cpu, self.precise(), self.each)
            if (
                what
                and self.peer is not None
                and not differences(actual, self.peer(), None, self.each)
            ):
                what = ""
            if what:
                found[name] = what[:_LONGEST]
        return found

    def on_device(self) -> str:
        """Computes each way and compares nothing."""
        for way in self.ways.values():
            way()
        return ""


def outcome_of(compute: Callable[[], list[Array]]) -> Outcome:
    """The arrays that ``compute`` gives, or its error."""
    try:
        return Outcome(compute())
    except Exception as error:  # whatever a framework refuses a call with
        return Outcome(error=f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
