"""A call of a scan, and what it gives on a device and on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tests.scan.judge import Array, Outcome, differences

Way = Callable[[], Outcome]
_LONGEST: Final = 300  # characters of a finding
ARGUMENTS: Final = "arguments"  # stands for a call that is wrong itself


@dataclass(frozen=True)
class Call:
    """``cpu`` is what is right, and so is ``precise``, in float64, where there is one. ``ways``: by their names, the
    ways in which the device computes it. ``peers``: by the names of ways, what the framework gives on the CPU in other
    ways than ``cpu``, as by XLA's own CPU backend: a difference that one of them shares is the framework's, and not
    the device's. It is a finding only where there is a name for such: ``shared``, which is added to the way's.
    """

    name: str
    cpu: Way
    ways: Mapping[str, Way]
    precise: Way | None = None
    peers: Mapping[str, Sequence[Way]] = field(default_factory=dict)
    each: bool = False  # whether elements are judged by themselves (judge.differences)
    bits: bool = False  # whether elements have the CPU's bits (judge.differences)
    shared: str = ""
    must_run: bool = False  # whether arguments that every way refuses are a finding

    def in_ways(self, names: Collection[str] | None) -> Call:
        """The call in those of its ways that have such names; in all of them if there are no names."""
        if names is None:
            return self
        return replace(self, ways={n: way for n, way in self.ways.items() if n in names})

    def findings(self) -> dict[str, str]:
        """By the name of the way: how it differs from the CPU. Ways that do not differ have no entry."""
        cpu = self.cpu()
        found = {}
        refused = cpu.error
        for name, way in self.ways.items():
            actual = way()
            refused = refused if actual.error else ""
            what = self._differences(actual, cpu)
            precise = None
            if what and self.precise is not None and not self.bits:
                precise = self.precise()
                what = self._differences(actual, cpu, precise)
            peers = [peer() for peer in self.peers.get(name, ())] if what else []
            if peers:
                rest = self._differences(actual, cpu, precise, peers)
                name, what = (
                    (name, rest) if rest else (f"{name}{self.shared}", what if self.shared else "")
                )
            if what:
                found[name] = what[:_LONGEST]
        if self.must_run and refused:
            found[ARGUMENTS] = f"nobody takes these arguments: {refused}"[:_LONGEST]
        return found

    def _differences(
        self,
        actual: Outcome,
        cpu: Outcome,
        precise: Outcome | None = None,
        peers: Sequence[Outcome] = (),
    ) -> str:
        return differences(actual, cpu, precise, self.each, self.bits, peers)

    def ends(self, alone: Callable[[Callable[[], str]], str]) -> dict[str, str]:
        """By the name of the way: how it ends its process, which ``alone`` says of a computation in a process of its
        own. A way that ends it on the CPU too is ``shared``.
        """

        def of(way: Way) -> Callable[[], str]:
            return lambda: way().error[:0]

        found = {}
        for name, way in self.ways.items():
            what = alone(of(way))
            if what:
                peers = (self.cpu, *self.peers.get(name, ()))
                theirs = any(alone(of(peer)) for peer in peers)
                found[f"{name}{self.shared}" if theirs else name] = what
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
