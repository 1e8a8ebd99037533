"""How a chain of loops is computed together: which planes of its arrays are kept, and how the work is cut.

A chain is a computation of ``loop`` fusions, whose results are read by later ones, are results of the chain, or both.
It goes along the first dimension: for each place, which is a plane of the arrays, every loop computes the plane that
the loops behind it are going to read, and the last one the plane itself. The arrays between them have only those
planes in memory that are still read, in a ring. Where planes are too large for that, the second dimension is cut into
tiles, and each tile goes along the first dimension by itself; what lies around a tile is computed for both of its
neighbours, but written to the chain's results by one of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from ..ir.hlo import Computation, Instruction
from .reach import Window, offsets_read, window_along

# Planes of an array between two loops that are kept at most: wider stencils would compute too much at each beginning.
_MOST_PLANES: Final = 16
# A unit of work goes along so many times the planes that it computes before its first one if that leaves units for a
# few threads, and half as many times else; tiles are as many times as high as what they read around them.
_TIMES: Final = 8
_FEW_UNITS: Final = 8
# Units of work that are enough for all threads.
_UNITS: Final = 32
_MOST_TILES: Final = 64


@dataclass(frozen=True, slots=True)
class Reading:
    """An operand that is a result of an earlier loop: which one, and its windows along the first two dimensions.

    ``across`` is None where it is read anywhere along the second one.
    """

    stage: int
    result: int
    along: Window
    across: Window | None


@dataclass(slots=True)
class Stage:
    """A loop of a chain, and which of its planes the loops behind it need for the places b to e of the last loop: those
    from b + ``first`` to e + ``last``. At place p the plane p + ``last`` is computed.

    Where two five-point stencils follow one another, the first has first = -1, last = 1 and 3 planes: the second reads
    those before, at and behind p.
    """

    loop: Instruction
    dims: tuple[int, ...]
    readings: dict[int, Reading]  # by the number of the operand
    # Which results of the loop are which results of the chain, and those that later loops read.
    written: dict[int, int]
    kept: set[int] = field(default_factory=set)
    first: int = 0
    last: int = 0
    oldest: int = 0  # at place p none before p + oldest is read any more
    planes: int = 1  # that are kept: those from oldest to last
    wraps: bool = False  # planes beyond the ends are needed too, which are those at the other end
    # The same along the second dimension, for a tile: from its first row + top to its last row + bottom.
    top: int = 0
    bottom: int = 0
    wraps_across: bool = False

    @property
    def is_wider(self) -> bool:
        """Whether a unit of work computes more than its own places, at which it writes the chain's results."""
        return bool(self.first or self.last or self.top or self.bottom)


@dataclass(slots=True)
class Plan:
    """``stages`` in order, the last one with results of the chain. ``tiles`` along the second dimension, of ``rows``
    each, where it is tiled. ``places`` of the first dimension are a unit of work.
    """

    stages: list[Stage]
    kept: int = 0  # bytes of all rings
    tiles: int = 1
    rows: int = 0
    places: int = 1
    before: int = 0  # places before a unit's first one at which some loop has something to compute
    is_tiled: bool = False

    @property
    def repeated(self) -> float:
        """How much more than the loops one after the other the chain computes: 1.1 is a tenth more."""
        along = 1 + self.before / self.places / 2
        return along * (1 + _around(self) / self.rows / 2) if self.is_tiled else along

    @property
    def has_neighbours(self) -> bool:
        """Whether a stage reads other places of another one than those that it computes."""
        readings = [r for stage in self.stages for r in stage.readings.values()]
        return any(w is None or w.low or w.high for r in readings for w in (r.along, r.across))

    @property
    def units(self) -> int:
        return -(-self.stages[-1].dims[0] // self.places) * self.tiles

    def ring_rows(self, stage: Stage) -> int:
        """Places along the second dimension that a ring of ``stage`` has."""
        if not self.is_tiled:
            return stage.dims[1]
        return min(self.rows, stage.dims[1]) + stage.bottom - stage.top


def plan_of(chain: Computation, most_kept: int) -> Plan | None:
    """The plan for a chain's computation; None if its loops cannot be computed together or would have to keep more than
    ``most_kept`` bytes.
    """
    stages = _stages(chain)
    if stages is None or not _extend(stages):
        return None
    return _cut(Plan(stages), most_kept)


def _stages(chain: Computation) -> list[Stage] | None:
    numbers: dict[Instruction, int] = {}
    stages: list[Stage] = []
    written: dict[Instruction, dict[int, int]] = {}
    for number, value in enumerate(chain.results):
        loop, result = source_of(value)
        written.setdefault(loop, {})[result] = number
    for loop in chain.instructions:
        if loop.opcode != "fusion":
            continue
        results = loop.called[0].results
        dims = results[0].dims
        if len(dims) < 2 or any(r.dims != dims for r in results):
            return None
        offsets = offsets_read(loop.called[0])
        if offsets is None:
            return None
        readings = {}
        for parameter, read in offsets.items():
            number = parameter.attributes["index"]
            source, result = source_of(loop.operands[number])
            if source not in numbers:
                continue
            producer = stages[numbers[source]]
            producer.kept.add(result)
            if len(producer.dims) != len(dims):
                return None
            along, across = (window_along(d, list(read), producer.dims[d], dims[d]) for d in (0, 1))
            if along is None or along.high - along.low >= _MOST_PLANES:
                return None
            readings[number] = Reading(numbers[source], result, along, across)
        numbers[loop] = len(stages)
        stages.append(Stage(loop, dims, readings, written.get(loop, {})))
    if any(stage.written and stage.dims != stages[-1].dims for stage in stages):
        return None
    return stages


def source_of(operand: Instruction) -> tuple[Instruction, int]:
    """The instruction that has the value, and which of its results it is."""
    if operand.opcode == "get-tuple-element":
        return operand.operands[0], operand.attributes["index"]
    return operand, 0


def _extend(stages: Sequence[Stage]) -> bool:
    """Say for each stage which planes and rows later ones need; whether that is possible."""
    read: set[int] = set()
    for number in range(len(stages) - 1, -1, -1):
        reader = stages[number]
        for reading in reader.readings.values():
            stage, along, across = stages[reading.stage], reading.along, reading.across
            is_first = reading.stage not in read
            is_alone = is_first and not stage.written  # its own places are written
            read.add(reading.stage)
            low, high = reader.first + along.low, reader.last + along.high
            oldest = reader.last + along.low
            stage.first = low if is_alone else min(stage.first, low)
            stage.last = high if is_alone else max(stage.last, high)
            stage.oldest = oldest if is_first else min(stage.oldest, oldest)
            stage.wraps |= along.wraps or reader.wraps
            # A plane beyond the end of one loop is made of planes beyond the end of another: both ends are one place.
            if (along.wraps or reader.wraps) and stage.dims[0] != reader.dims[0]:
                return False
            if across is not None:
                up, down = reader.top + across.low, reader.bottom + across.high
                stage.top = up if is_alone else min(stage.top, up)
                stage.bottom = down if is_alone else max(stage.bottom, down)
                stage.wraps_across |= across.wraps or reader.wraps_across
    if not all(stage.written or number in read for number, stage in enumerate(stages)):
        return False
    for stage in stages:
        stage.planes = stage.last - min(stage.oldest, stage.last) + 1
        # Places beyond an end are brought back by adding or taking off the size once.
        if stage.wraps and stage.planes + (stage.last - stage.first) > stage.dims[0]:
            return False
    return True


def _cut(plan: Plan, most_kept: int) -> Plan | None:
    """The plan with tiles and units of work that keep no more than ``most_kept`` bytes; None if there are none."""
    last = plan.stages[-1]
    plan.before = max(s.last - s.first for s in plan.stages)
    plan.rows = last.dims[1]
    plan.kept = _bytes(plan)
    while plan.kept > most_kept:
        if not plan.is_tiled and not _has_tiles(plan):
            return None
        plan.is_tiled = True
        plan.tiles *= 2
        plan.rows = -(-last.dims[1] // plan.tiles)
        if plan.tiles > _MOST_TILES or plan.rows < _TIMES // 2 * _around(plan) or plan.rows < 2:
            return None
        plan.kept = _bytes(plan)
    plan.tiles = -(-last.dims[1] // plan.rows)  # none of them is empty
    places = last.dims[0] * plan.tiles  # of all units
    least = min(_TIMES * plan.before, max(_TIMES // 2 * plan.before, -(-places // _FEW_UNITS)))
    plan.places = min(last.dims[0], max(-(-places // _UNITS), least, 1))
    return plan


def _has_tiles(plan: Plan) -> bool:
    """Whether the second dimension can be cut: it is not that of the rows, and each array is read near by."""
    last = plan.stages[-1]
    if len(last.dims) < 3:
        return False
    for stage in plan.stages:
        for reading in stage.readings.values():
            source = plan.stages[reading.stage]
            if reading.across is None or (source.wraps_across and source.dims[1] != stage.dims[1]):
                return False
    return True


def _around(plan: Plan) -> int:
    return max(s.bottom - s.top for s in plan.stages)


def _bytes(plan: Plan) -> int:
    """What all rings take."""
    return sum(
        math.prod(ring_dims(plan, stage)) * result.dtype.size
        for stage in plan.stages
        for n, result in enumerate(stage.loop.called[0].results)
        if n in stage.kept
    )


def ring_dims(plan: Plan, stage: Stage) -> tuple[int, ...]:
    """The dimensions of what is kept of a result of ``stage``."""
    if len(stage.dims) == 2:
        return (stage.planes, stage.dims[1])
    return (stage.planes, plan.ring_rows(stage), *stage.dims[2:])
