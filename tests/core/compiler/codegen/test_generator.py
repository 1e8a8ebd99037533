"""Levels: where the generator believes that values live, which decides where code goes that uses them."""

from __future__ import annotations

import pytest
from tripont.core.compiler.codegen.elements.elemental import element
from tripont.core.compiler.codegen.generator import Array, Coordinate, Generator, fixed
from tripont.core.compiler.codegen.llvm_ir import Builder, Module, Value, i64
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32
from tripont.core.compiler.targets.host import for_cpu


def generator() -> Generator:
    target = for_cpu("x86-64-v3")
    return Generator(Builder(Module(), "kernel", ["i64", "ptr"]), target)


def made_outside(g: Generator) -> Value:
    """A value that nobody has noted, at the depth where the generator is."""
    return g.builder.binary("mul", g.builder.arguments[0], i64(3))


@pytest.mark.parametrize("opcode", ["add", "sub", "mul", "gep"])
def test_an_operand_that_comes_back_stays_where_it_was_made(opcode: str) -> None:
    """x + 0 is x: it is not a value of the loop that asks for it, and outlives that loop."""
    g = generator()
    with g.loop(i64(0), i64(8)):
        x = made_outside(g)
        with g.loop(i64(0), i64(8)), g.loop(i64(0), i64(8)):
            if opcode == "gep":
                assert g.offset_pointer("float", x, i64(0)) is x
            else:
                neutral = i64(1) if opcode == "mul" else i64(0)
                assert getattr(g, opcode)(x, neutral) is x
        with g.loop(i64(0), i64(8)):
            assert g.level_of(x) <= g.depth
        assert g.level_of(x) <= g.depth
        y = g.add(x, i64(7))  # it raised IndexError
        assert g.level_of(y) == g.depth
    g.builder.ret()


def test_noting_again_does_not_move_a_value_inward() -> None:
    g = generator()
    with g.loop(i64(0), i64(8)) as (i, _, _):
        with g.loop(i64(0), i64(8)):
            g.note(i)
            assert g.level_of(i) == 1
        assert g.level_of(i) == 1


def test_an_element_is_known_at_equal_indices_until_the_code_leaves_the_depth() -> None:
    g = generator()
    x = hlo.parameter(0, hlo.Shape(F32, (8, 8)))
    with g.loop(i64(0), i64(8)) as (i, _, _):
        index = (Coordinate(i, high=7), fixed(2))
        value = made_outside(g)
        with g.loop(i64(0), i64(8)):
            g.know(x, index, value)
            assert element(g, x, (Coordinate(i, high=7), fixed(2))) is value
            assert g.recall((x, g.place((Coordinate(i, high=7), fixed(3))))) is None
        assert g.recall((x, g.place(index))) is None


def test_what_lanes_share_of_a_quotient_goes_to_the_pointer() -> None:
    """Lanes of a vector that lie in different groups, counted from the first one's: constants beside a pointer."""
    g = generator()
    array = Array(g.builder.arguments[1], hlo.Shape(F32, (64, 5)))
    with g.loop(i64(0), i64(256), 32) as (i, _, _):
        k = Coordinate(i, 4, 8, None, 0, 255, 32)
        group, number = g.divide(k, 16)
        assert number.vector is not None
        assert number.vector.constant == (0, 4, 8, 12, 0, 4, 8, 12)
        _, lane = g.address(array, (group, fixed(2)))
        assert lane.vector is not None
        assert lane.vector.constant == (0, 0, 0, 0, 5, 5, 5, 5)
    g.builder.ret()
