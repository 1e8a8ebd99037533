"""A call of a scan, and what it gives on a device and on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.scan.judge import Array, Outcome, differences

Way = Callable[[], Outcome]
_LONGEST: Final = 300  # characters of a finding


@dataclass(frozen=True)
class Call:
    """``cpu`` is what is right, and so is ``precise``, in float64, where there is one. ``ways``: by their names, the
    ways in which the device computes it. ``peers``: by the names of ways, what the framework gives on the CPU in other
    ways than ``cpu``, as by XLA's own CPU backend: a difference that one of them shares is the framework's, and not
    the device's.
    """

    name: str
    cpu: Way
    ways: Mapping[str, Way]
    precise: Way | None = None
    peers: Mapping[str, Sequence[Way]] = field(default_factory=dict)
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
            peers = self.peers.get(name, ()) if what else ()
            if any(not differences(actual, peer(), None, self.each) for peer in peers):
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
