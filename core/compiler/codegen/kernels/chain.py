"""The "chain" kernel: several loops plane after plane, with what lies between them in rings of planes on the stack.

:mod:`...fusion.chain_plan` says what a chain is and how it is cut. A unit of work is a number of places of the first
dimension, in one tile of the second one. At each place all loops compute a plane, the first ones further ahead than
the last one; each loop is written as the "loop" kernel would be, and reads the arrays of the others out of their rings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...fusion.chain_plan import Plan, Reading, Stage, plan_of, ring_dims
from ...ir import errors, hlo
from .. import costs
from ..bits import as_bits
from ..elements.elemental import element
from ..generator import Array, Coordinate, Generator, Index
from ..llvm_ir import Value, i64
from . import loops, periods
from .emit import EmittedKernel, Frame, emitter

if TYPE_CHECKING:
    from ..representation import Element


def _emit(frame: Frame) -> EmittedKernel:
    plan = plan_of(frame.instruction.called[0], frame.target.costs.memory.planes)
    if plan is None:
        raise errors.of_instruction(
            "INTERNAL", "the loops of this chain cannot be computed together", frame.instruction
        )
    _Chain(frame, plan).write()
    work = sum(costs.of_computation(frame.target, s.loop.called[0]) for s in plan.stages)
    return frame.finish_large(plan.units, plan.repeated * work / plan.units)


emit = emitter(collapsed=False)(_emit)


@dataclass(slots=True)
class _Unit:
    """A unit of work: places ``begin`` to ``end`` of the first dimension, ``top`` to ``bottom`` of the second."""

    begin: Value
    end: Value
    top: Value
    bottom: Value


@dataclass(slots=True)
class _Loop:
    """A stage with what its code needs: its computation, in which numbers that are only moved may be integers of
    their size, and the arrays that it writes, by the numbers of its results: rings, and results of the chain.
    """

    stage: Stage
    computation: hlo.Computation
    rings: dict[int, Array]
    results: dict[int, Array]


class _Chain:
    def __init__(self, frame: Frame, plan: Plan) -> None:
        self.frame, self.plan = frame, plan
        self.g: Generator = frame.generator
        self.loops = [self.loop_of(stage) for stage in plan.stages]
        # The plane that a loop is computing, where ends are not those of the array: place p may be p - size as well.
        self.plane: Value | None = None
        self.unit: _Unit | None = None

    def loop_of(self, stage: Stage) -> _Loop:
        frame = self.frame
        computation = as_bits(stage.loop.called[0], frame.target.has_double)
        rings: dict[int, Array] = {}
        results: dict[int, Array] = {}
        for n, root in enumerate(computation.results):
            if n in stage.kept:
                shape = hlo.Shape(root.dtype, ring_dims(self.plan, stage))
                rings[n] = Array(frame.builder.alloca("i8", shape.bytes), shape)
            if n in stage.written:
                pointer = frame.results[stage.written[n]].pointer
                results[n] = Array(pointer, hlo.Shape(root.dtype, stage.dims))
        return _Loop(stage, computation, rings, results)

    # ---------------------------------------------------------------------------------------------------------- loops
    def write(self) -> None:
        g, plan = self.g, self.plan
        with g.loop(self.frame.begin, self.frame.end) as (number, _, _):
            unit = self.unit = self.unit_of(number)
            first = g.sub(unit.begin, i64(plan.before))
            with g.loop(first, unit.end) as (place, _, _):
                for loop in self.loops:
                    self.bind(loop)
                    self.write_plane(loop, unit, place)

    def unit_of(self, number: Value) -> _Unit:
        g, b, plan = self.g, self.frame.builder, self.plan
        dims = plan.stages[-1].dims
        block, tile = g.divide(
            Coordinate(number, high=plan.units - 1), plan.tiles
        ) if plan.tiles > 1 else (Coordinate(number), Coordinate(i64(0)))  # fmt: skip

        def ends(at: Value, size: int, most: int) -> tuple[Value, Value]:
            start = g.mul(at, i64(size))
            stop = b.intrinsic("smin", [g.add(start, i64(size)), i64(most)])
            g.note(stop)
            return start, stop

        return _Unit(*ends(block.base, plan.places, dims[0]), *ends(tile.base, plan.rows, dims[1]))

    def bind(self, loop: _Loop) -> None:
        """Say where the operands of ``loop`` are. (Loops that do the same have one computation and its parameters.)"""
        g, stage = self.g, loop.stage
        for parameter in loop.computation.parameters:
            number = parameter.attributes["index"]
            reading = stage.readings.get(number)
            if reading is not None:
                g.readers[parameter] = self.reader(stage, parameter, reading)
                continue
            g.readers.pop(parameter, None)
            source = stage.loop.operands[number]
            if source.opcode == "parameter":
                array = self.frame.operands[source.attributes["index"]]
                shape = hlo.Shape(parameter.dtype, parameter.dims)
                g.arrays[parameter] = Array(array.pointer, shape)

    def write_plane(self, loop: _Loop, unit: _Unit, place: Value) -> None:
        """The plane that ``loop`` computes at ``place``, if there is one."""
        g, b, stage = self.g, self.frame.builder, loop.stage
        size = stage.dims[0]
        plane = g.add(place, i64(stage.last))
        condition = g.compare("sge", plane, g.add(unit.begin, i64(stage.first)))
        if not stage.wraps and (
            stage.first < 0 or stage.last > 0 or size < self.plan.stages[-1].dims[0]
        ):
            condition = g.apply("and", condition, g.compare("ult", plane, i64(size)))
        with g.only_if(condition, "plane"):
            self.plane = plane
            along = Coordinate(self.wrapped(plane, size) if stage.wraps else plane, high=size - 1)
            slot = self.slot(plane, stage)
            is_own = None  # where all that is computed is
            if stage.written and stage.is_wider:
                is_own = self.within(plane, unit.begin, unit.end)
            if not self.plan.is_tiled:
                self.write_place(loop, (along,), (slot,), is_own)
                return
            start, stop = (g.add(unit.top, i64(stage.top)), g.add(unit.bottom, i64(stage.bottom)))
            if not stage.wraps_across:
                start = b.intrinsic("smax", [start, i64(0)])
                stop = b.intrinsic("smin", [stop, i64(stage.dims[1])])
                g.note(start, stop)
            with g.loop(start, stop) as (row, _, _):
                high = stage.dims[1]
                across = self.wrapped(row, high) if stage.wraps_across else row
                local = g.sub(row, g.add(unit.top, i64(stage.top)))
                rows = self.plan.ring_rows(stage)
                is_own_row = is_own
                if is_own is not None:
                    is_own_row = g.apply("and", is_own, self.within(row, unit.top, unit.bottom))
                self.write_place(
                    loop,
                    (along, Coordinate(across, high=high - 1)),
                    (slot, Coordinate(local, high=rows - 1)),
                    is_own_row,
                )

    def within(self, place: Value, begin: Value, end: Value) -> Value:
        g = self.g
        return g.apply("and", g.compare("sge", place, begin), g.compare("slt", place, end))

    def write_place(self, loop: _Loop, at: Index, kept_at: Index, is_own: Value | None) -> None:
        """As :meth:`write_rows`, which writes the chain's results where the unit of work ``is_own``, if it is given."""
        if is_own is None:
            self.write_rows(loop, at, kept_at)
            return
        self.g.either(
            is_own,
            lambda: self.write_rows(loop, at, kept_at),
            lambda: self.write_rows(loop, at, kept_at, around=True),
        )

    def write_rows(self, loop: _Loop, at: Index, kept_at: Index, around: bool = False) -> None:
        """The rows of ``loop`` at the leading coordinates ``at``, which lie at ``kept_at`` in its rings. ``around`` the
        places of a unit of work no results of the chain are written.
        """
        g, target, computation = self.g, self.frame.target, loop.computation
        results: dict[int, Array] = {} if around else loop.results
        numbers = [n for n in range(len(computation.results)) if n in loop.rings or n in results]
        roots = [computation.results[n] for n in numbers]
        size, code = loop.stage.dims[-1], loops.row_code(target, computation)
        past_caches = self.frame.moves_at_least(target.costs.memory.past_caches)
        insides = loops.insides_of(roots, (len(code.cuts) + 1) * code.weight)

        def row(leading: Index) -> None:
            loops.write_row(g, leading, insides, write)

        def write(leading: Index) -> None:
            def step(c: Coordinate, mask: Value | None) -> None:
                values: list[Element] = [element(g, root, (*leading, c)) for root in roots]
                kept = (*kept_at, *leading[len(at) :], c)
                for n, value in zip(numbers, values, strict=True):
                    if n in loop.rings:
                        g.store(loop.rings[n], kept, value, mask)
                    if n in results:
                        g.store(results[n], (*leading, c), value, mask, past_caches)

            def alternating(c: Coordinate, _: Value | None) -> None:
                places = periods.places(g, (*leading, c), size, code.period)
                values = [[element(g, root, place) for place in places] for root in roots]
                kept = [(*kept_at, *place[len(at) :]) for place in places]
                for n, row in zip(numbers, values, strict=True):
                    if n in loop.rings:
                        periods.store(g, loop.rings[n], kept, row, False)
                    if n in results:
                        periods.store(g, results[n], places, row, past_caches)

            loops.whole_row(g, size, code, alternating if code.period > 1 else step)

        g.nest(loop.stage.dims[:-1], row, at)

    # ------------------------------------------------------------------------------------------------ reading of rings
    def reader(
        self, stage: Stage, parameter: hlo.Instruction, reading: Reading
    ) -> Callable[[Index], Element]:
        """The reader of an operand of ``stage`` that is the result of another loop of the chain."""
        source = self.loops[reading.stage]
        ring = source.rings[reading.result]
        array = Array(ring.pointer, ring.shape.with_dtype(parameter.dtype))

        def read(index: Index) -> Element:
            return self.g.load(array, self.kept_at(source.stage, reading, index))

        return read

    def kept_at(self, source: Stage, reading: Reading, index: Index) -> Index:
        """Where the ring of ``source`` has element ``index`` of its array."""
        g, plane, unit = self.g, self.plane, self.unit
        assert plane is not None
        assert unit is not None
        at = index[0].base
        if source.wraps:  # the place that lies next to the plane which is being computed
            low, high = g.add(plane, i64(reading.along.low)), g.add(plane, i64(reading.along.high))
            at = self.between(at, low, high, source.dims[0])
        slot = self.slot(at, source)
        if not self.plan.is_tiled:
            return (slot, *index[1:])
        local = g.sub(index[1].base, g.add(unit.top, i64(source.top)))
        last = self.plan.ring_rows(source) - 1
        if source.wraps_across:
            local = self.between(local, i64(0), i64(last), source.dims[1])
        return (slot, Coordinate(local, high=last), *index[2:])

    def slot(self, plane: Value, stage: Stage) -> Coordinate:
        """Where a ring has ``plane``, which may lie before the array's first one."""
        g, planes = self.g, stage.planes
        if planes == 1:
            return Coordinate(i64(0), high=0)
        # So many planes are added that no number is negative.
        before = -(min(stage.first, 0) // planes) * planes
        moved = g.add(plane, i64(before))
        value = g.pure(
            ("slot", plane, planes, before), [moved],
            lambda: self.frame.builder.binary("urem", moved, i64(planes)),
        )  # fmt: skip
        return Coordinate(value, high=planes - 1)

    def wrapped(self, place: Value, size: int) -> Value:
        """``place`` of a dimension of ``size`` elements whose ends meet."""
        return self.between(place, i64(0), i64(size - 1), size)

    def between(self, place: Value, low: Value, high: Value, size: int) -> Value:
        """``place``, or the one a ``size`` further on or back that lies from ``low`` to ``high``."""
        g = self.g
        place = self.chosen(g.compare("slt", place, low), g.add(place, i64(size)), place)
        return self.chosen(g.compare("sgt", place, high), g.sub(place, i64(size)), place)

    def chosen(self, condition: Value, then: Value, otherwise: Value) -> Value:
        return self.g.pure(
            ("chosen", condition, then, otherwise), [condition, then, otherwise],
            lambda: self.frame.builder.select(condition, then, otherwise),
        )  # fmt: skip
