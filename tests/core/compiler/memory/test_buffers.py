"""Buffer assignment: sharing, donation, moves, and the checker that proves it."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module
from tripont.core.compiler.memory import arena as arena_module
from tripont.core.compiler.memory import buffers
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler import programs
from tests.core.compiler.builders import S32, arguments, compare, module, number, op, parameter
from tests.core.compiler.simulate import Simulation


def simulate(before: Module, passes=pipeline.PASSES) -> Simulation:
    """Compile, run, compare with the reference."""
    values = arguments(before)
    expected = evaluate(before, values)
    simulation = Simulation(pipeline.run(before, for_cpu(), pipeline.Dump(), passes))
    for a, b in zip(simulation.run(values), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
    return simulation


def jax_program(name: str, *donated: int) -> Simulation:
    before = read_program(programs.stablehlo(name, donated), "mlir")
    values = programs.arguments_of(name)
    expected = evaluate(before, values)
    simulation = Simulation(pipeline.run(before, for_cpu(), pipeline.Dump()))
    for a, b in zip(simulation.run(values), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)
    return simulation


def arena(simulation: Simulation) -> int:
    return sum(
        a.size for a in simulation.assignment.allocations if a.kind == artifact.ALLOCATION_TEMP
    )


def dot(a, b):
    numbers = hlo.DotDimensionNumbers((1,), (0,))
    return op(
        "dot",
        a,
        b,
        dims=(a.dims[0], b.dims[1]),
        dimension_numbers=numbers,
        precision=("DEFAULT",) * 2,
    )


def test_chain_of_dots_takes_one_block_beside_its_result() -> None:
    x, w = parameter(0, 16, 16), parameter(1, 16, 16)
    top = x
    for _ in range(10):
        top = dot(top, w)
    assert arena(simulate(module([x, w], top))) == 16 * 16 * 4


def test_a_chain_with_a_small_result_reuses_two_blocks() -> None:
    x, w, v = parameter(0, 16, 16), parameter(1, 16, 16), parameter(2, 16, 1)
    top = x
    for _ in range(10):
        top = dot(top, w)
    assert arena(simulate(module([x, w, v], dot(top, v)))) == 2 * 16 * 16 * 4


def test_a_result_that_takes_over_a_parameter_lends_nothing() -> None:
    """Until it is written the parameter's content is there, which is read late."""
    x, w = parameter(0, 16, 16), parameter(1, 16, 16)
    top = x
    for _ in range(3):
        top = dot(top, w)
    result = op("add", top, x)
    simulation = simulate(module([x, w], result, input_output_aliases=((0, 0, False),)))
    assert donated(simulation) == {0: 0}
    assert arena(simulation) == 2 * 16 * 16 * 4


def test_a_result_in_other_memory_lends_nothing() -> None:
    x, w = parameter(0, 16, 16), parameter(1, 16, 16)
    program = module([x, w], dot(dot(dot(x, w), w), w))
    program.result_memory_kinds = ("pinned_host",)
    assert arena(simulate(program)) == 2 * 16 * 16 * 4


def test_elementwise_kernel_writes_over_its_dying_operand() -> None:
    x, w = parameter(0, 16, 16), parameter(1, 16, 16)
    top = x
    for _ in range(10):
        top = op("tanh", dot(top, w))
    assert arena(simulate(module([x, w], top))) <= 2 * 16 * 16 * 4


def test_transposed_read_is_not_in_place() -> None:
    x, w = parameter(0, 16, 16), parameter(1, 16, 16)
    y = dot(x, w)
    turned = op("transpose", y, dims=(16, 16), dimensions=(1, 0))
    simulate(module([x, w], dot(op("add", y, turned), w)))


@pytest.mark.parametrize("size", [100, buffers.LARGE_LITERAL])
def test_equal_constants_share_bytes(size: int) -> None:
    a = hlo.constant(np.arange(size, dtype=np.float32))
    b = hlo.constant(np.arange(size, dtype=np.float32))
    c = hlo.constant(np.arange(1, size + 1, dtype=np.float32))
    x = parameter(0, size)
    total = op("multiply", op("add", op("add", x, a), b), c)
    fused = pipeline.run(module([x], total), for_cpu(), pipeline.Dump())
    assert len(buffers.assign(fused).constants) == -(-4 * size // 64) * 64 + 4 * size


def test_results_that_need_copies() -> None:
    x = parameter(0, 5)
    simulation = simulate(module([x], x, x, number(2.0), op("exponential", x)))
    assert simulation.copies == 3


def donated(simulation: Simulation) -> dict[int, int]:
    """result -> parameter whose memory it takes."""
    allocations = simulation.assignment.allocations
    return {a.index: a.aliased_parameter for a in allocations if a.aliased_parameter >= 0}


def test_donated_parameter_is_updated_in_place() -> None:
    x, y = parameter(0, 64), parameter(1, 64)
    simulation = simulate(module([x, y], op("add", x, y), input_output_aliases=((0, 0, False),)))
    assert donated(simulation) == {0: 0}
    assert simulation.copies == 0


def test_donation_waits_for_the_last_read() -> None:
    """The parameter is read after the result could be there: "may" gives way, "must" copies."""
    x, w = parameter(0, 16, 16), parameter(1, 16, 16)
    new = dot(x, w)
    later = dot(dot(new, w), x)
    may = simulate(module([x, w], new, later, input_output_aliases=((0, 0, False),)))
    assert donated(may) == {}
    assert may.copies == 0
    must = simulate(module([x, w], new, later, input_output_aliases=((0, 0, True),)))
    assert donated(must) == {0: 0}
    assert must.copies == 1


def test_swapped_donations() -> None:
    x, y = parameter(0, 8), parameter(1, 8)
    simulate(module([x, y], y, x, input_output_aliases=((0, 0, True), (1, 1, True))))
    simulate(module([x, y], y, x, input_output_aliases=((0, 0, False), (1, 1, False))))


def test_donation_of_another_size_is_ignored() -> None:
    x = parameter(0, 8)
    y = op("slice", x, dims=(4,), starts=(0,), limits=(4,), strides=(1,))
    assert donated(simulate(module([x], y, input_output_aliases=((0, 0, False),)))) == {}


def test_buffer_donor_takes_any_result_of_its_shape() -> None:
    x, y = parameter(0, 8), parameter(1, 4)
    simulation = simulate(module([x, y], op("negate", y), op("exponential", x), buffer_donors=(0,)))
    assert donated(simulation) == {1: 0}


def test_optimizer_step_in_place() -> None:
    simulation = jax_program("adam", 0, 1, 2)
    assert simulation.copies == 0
    assert (
        len(donated(simulation)) >= 16
    )  # two biases are also read by the kernel that would write them


def test_scan_updates_its_stack_in_place() -> None:
    simulation = jax_program("lstm")
    assert simulation.copies <= 2  # the start values


def test_permuting_loops() -> None:
    for name in ("swap_loop", "rotate_loop", "nested_loop"):
        jax_program(name)


def test_invariant_state_has_no_copy() -> None:
    """A parameter that a loop reads is neither copied nor written."""
    simulation = jax_program("power_iteration")
    copies = [t.source.size for t in simulation.lowered.thunks if isinstance(t, artifact.Copy)]
    big = max(copies, default=0)
    assert big < 6 * 6 * 4


def test_one_init_for_two_states() -> None:
    i, a, b = parameter(0, dtype=S32), parameter(1, 4), parameter(2, 4)
    condition = Computation.from_root("c", [i, a, b], compare(i, number(3, dtype=S32), "LT"))
    i, a, b = parameter(0, dtype=S32), parameter(1, 4), parameter(2, 4)
    new = [op("add", i, number(1, dtype=S32)), op("add", a, b), op("multiply", b, a)]
    shape = hlo.TupleShape(tuple(n.shape for n in new))
    body = Computation.from_root("b", [i, a, b], Instruction("tuple", shape, new))
    x = parameter(0, 4)
    start = op("tanh", x)
    loop = Instruction(
        "while", shape, [number(0, dtype=S32), start, start], called=[condition, body]
    )
    simulate(module([x], hlo.get_tuple_element(loop, 1), hlo.get_tuple_element(loop, 2), start))


def test_one_value_for_two_states() -> None:
    i, a, b = parameter(0, dtype=S32), parameter(1, 4), parameter(2, 4)
    condition = Computation.from_root("c", [i, a, b], compare(i, number(3, dtype=S32), "LT"))
    i, a, b = parameter(0, dtype=S32), parameter(1, 4), parameter(2, 4)
    both = op("add", a, b)
    new = [op("add", i, number(1, dtype=S32)), both, both]
    shape = hlo.TupleShape(tuple(n.shape for n in new))
    body = Computation.from_root("b", [i, a, b], Instruction("tuple", shape, new))
    x, y = parameter(0, 4), parameter(1, 4)
    loop = Instruction("while", shape, [number(0, dtype=S32), x, y], called=[condition, body])
    simulate(module([x, y], hlo.get_tuple_element(loop, 1), hlo.get_tuple_element(loop, 2)))


@pytest.mark.parametrize("selector", [0, 1, 2, 7, -1])
def test_branches(selector: int) -> None:
    before = read_program(programs.stablehlo("branches"), "mlir")
    values = [np.int32(selector), *programs.arguments_of("branches")[1:]]
    expected = evaluate(before, values)
    actual = Simulation(pipeline.run(before, for_cpu(), pipeline.Dump())).run(values)
    for a, b in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_checker_finds_an_overlap() -> None:
    x, w = parameter(0, 16, 16), parameter(1, 16, 16)
    y = dot(dot(x, w), dot(w, x))
    fused = pipeline.run(module([x, w], dot(y, w)), for_cpu(), pipeline.Dump())
    assignment = buffers.assign(fused)
    buffers.check_assignment(fused, assignment)
    temporaries = [
        v
        for v in assignment.all_values
        if assignment.allocations[v.group.allocation].kind == artifact.ALLOCATION_TEMP
    ]
    for value in temporaries:
        value.group.offset = 0
    with pytest.raises(CompileError, match="overlap"):
        buffers.check_assignment(fused, assignment)


def test_huge_array_is_resource_exhausted() -> None:
    huge = hlo.broadcast(number(0.0), (1 << 30, 1 << 30))
    with pytest.raises(CompileError) as error:
        buffers.assign(pipeline.run(module([], huge), for_cpu(), pipeline.Dump()))
    assert error.value.code == "RESOURCE_EXHAUSTED"


def test_free_list_reuses_and_merges() -> None:
    free = arena_module.FreeList()
    a, b, c = free.take(64), free.take(128), free.take(64)
    assert (a, b, c, free.top) == (0, 64, 192, 256)
    free.release(a, 64)
    free.release(b, 128)
    assert free.take(192) == 0
    free.release(c, 64)
    assert free.take(320) == 192  # the free end grows
    assert free.top == 512


@pytest.mark.parametrize(("last", "blocks"), [("convolution", 1), ("transpose", 2)])
def test_a_result_that_may_be_made_later_lends_nothing(last: str, blocks: int) -> None:
    """The runtime makes a transpose of another result when somebody reads it."""
    top = x = parameter(0, 16, 16)
    for name in ("convolution", "convolution", "convolution", last):
        top = op("library-call", top, dims=(16, 16), name=name, config={})
    found = buffers.assign(module([x], top))
    temporary = [a.size for a in found.allocations if a.kind == artifact.ALLOCATION_TEMP]
    assert temporary == [blocks * 16 * 16 * 4]
