"""What ends large arrays comes early, and what would copy an array or keep more alive stays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, TupleShape
from tripont.core.compiler.memory import buffers
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.early_readers import read_early
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import op, parameter, reduce
from tests.core.compiler.counting import count_calls

LARGE = (256, 256)  # of f32: 256 KB


def module_of(parameters, instructions, *results, **fields) -> Module:
    shape = TupleShape(tuple(r.shape for r in results))
    root = Instruction("tuple", shape, results)
    inner = [o for i in instructions for o in i.operands if o.opcode == "constant"]
    order = [*parameters, *dict.fromkeys(inner), *instructions, root]
    return Module("m", Computation("main", parameters, order, root), **fields)


def numbers(module: Module, *wanted: Instruction) -> list[int]:
    return [module.entry.instructions.index(i) for i in wanted]


def in_order(module: Module, *wanted: Instruction) -> bool:
    found = numbers(module, *wanted)
    return found == sorted(found)


def test_sums_at_the_end_come_when_their_arrays_are_there():
    x = parameter(0, *LARGE)
    a = op("exponential", x)
    b = op("sine", a)
    c = op("cosine", b)
    sums = [reduce(v, (0, 1)) for v in (a, b, c)]
    before = module_of([x], [a, b, c, *sums], *sums)
    after = read_early(before)
    assert in_order(after, a, sums[0], b, sums[1], c, sums[2])


def test_of_two_readers_both_come():
    x = parameter(0, *LARGE)
    a = op("exponential", x)
    b = op("sine", a)
    c = op("cosine", b)
    first, second, last = reduce(a, (0, 1)), reduce(a, (0, 1), "maximum"), reduce(c, (0, 1))
    after = read_early(module_of([x], [a, b, c, first, second, last], first, second, last))
    assert in_order(after, a, first, second, b, c, last)


def test_other_names_come_along():
    x = parameter(0, *LARGE)
    a = op("exponential", x)
    b = op("sine", a)
    c = op("cosine", b)
    flat = op("bitcast", a, dims=(256 * 256,))
    total = reduce(flat, (0,))
    twice = op("bitcast", total, dims=(1,))
    last = reduce(c, (0, 1))
    after = read_early(module_of([x], [a, b, c, flat, total, twice, last], twice, last))
    assert in_order(after, a, flat, total, b, c)
    assert in_order(after, total, twice)


def test_an_order_stays_where_as_much_is_alive():
    x = parameter(0, *LARGE)
    a = op("exponential", x)
    b = op("sine", a)
    large = op("dot", a, x)
    before = module_of([x], [a, b, large], b, large)
    assert read_early(before) is before


def test_small_arrays_stay():
    x = parameter(0, 16, 16)
    a = op("exponential", x)
    b = op("sine", a)
    c = op("cosine", b)
    sums = [reduce(v, (0, 1)) for v in (a, b, c)]
    before = module_of([x], [a, b, c, *sums], *sums)
    assert read_early(before) is before


def test_a_parameter_that_a_result_takes_is_read_first():
    """The new weights come in the memory of the old ones, which the layer's gradient reads."""
    x, w = parameter(0, *LARGE), parameter(1, 256, 64)
    a = op("exponential", x)
    b = op("sine", x)
    reader = op("negate", w)
    c = op("cosine", b)
    new = op("library-call", a, w, dims=w.dims, name="gemm", config={"epilogue": "add"})
    last, other = reduce(c, (0, 1)), reduce(reader, (0, 1))
    instructions = [a, b, reader, c, new, last, other]
    donated = module_of(
        [x, w], instructions, new, last, other, input_output_aliases=((0, 1, False),)
    )
    assert in_order(read_early(donated), a, b, reader, new, c)
    kept = module_of([x, w], instructions, new, last, other)
    assert in_order(read_early(kept), a, new, b, reader, c)


def test_side_effects_stay():
    x = parameter(0, *LARGE)
    a = op("exponential", x)
    b = op("sine", a)
    c = op("cosine", b)
    call = op(
        "custom-call", a, dims=(), target="f", has_side_effect=True, output_operand_aliases=(),
    )  # fmt: skip
    last = reduce(c, (0, 1))
    before = module_of([x], [a, b, c, call, last], call, last)
    assert read_early(before) is before


def _read_by_many(count: int) -> Module:
    """Sums of one array at the end, behind another that ends too."""
    x = parameter(0, *LARGE)
    a = op("exponential", x)
    b = op("sine", a)
    c = op("cosine", b)
    sums = [*(reduce(a, (0, 1)) for _ in range(count)), reduce(c, (0, 1))]
    return module_of([x], [a, b, c, *sums], *sums)


def _weights(count: int) -> Module:
    """New weights in the memory of old ones of one size, each of an array that ends with them."""
    x = parameter(0, *LARGE)
    old = [parameter(1 + n, 256, 64) for n in range(count)]
    values = [x]
    for _ in range(count):
        values.append(op("sine", values[-1]))
    new = [
        op("library-call", v, w, dims=w.dims, name="gemm", config={"epilogue": "add"})
        for v, w in zip(values[1:], old, strict=True)
    ]
    taken = tuple((n, 1 + n, False) for n in range(count))
    return module_of([x, *old], [*values[1:], *new], *new, input_output_aliases=taken)


@pytest.mark.parametrize("make", [_read_by_many, _weights])
def test_twice_the_readers_take_twice_the_work(make):
    calls = []
    for count in (100, 200):
        module = make(count)
        calls.append(count_calls(lambda module=module: read_early(module)))
    assert calls[1] < 2.3 * calls[0]


def test_a_long_chain_of_names():
    """As long a one as Python's own stack does not hold."""
    x = parameter(0, *LARGE)
    a = op("exponential", x)
    b = op("sine", a)
    c = op("cosine", b)
    names = [reduce(a, (0, 1))]
    for _ in range(3000):
        names.append(op("bitcast", names[-1], dims=(1,) * (len(names) % 2)))
    last = reduce(c, (0, 1))
    after = read_early(module_of([x], [a, b, c, *names, last], names[-1], last))
    assert in_order(after, a, *names, b, c)


def arena(function, *arguments, donated=()) -> tuple[int, buffers.Assignment]:
    text = jax.jit(function, donate_argnums=donated).lower(*arguments).as_text()
    module = pipeline.run(read_program(text.encode(), "mlir"), for_cpu(), Dump())
    found = buffers.assign(module)
    buffers.check_assignment(module, found)
    kinds = [a for a in found.allocations if a.kind == artifact.ALLOCATION_TEMP]
    return sum(a.size for a in kinds), found


def trained(weights, x):
    def loss(weights):
        value = x
        for w in weights:
            value = jnp.tanh(value @ w)
        return (value * value).sum()

    return [w - 0.1 * g for w, g in zip(weights, jax.grad(loss)(weights), strict=True)]


def test_a_training_step_keeps_no_gradients_of_activations():
    x = np.zeros((4096, 64), np.float32)
    weights = [np.zeros((64, 64), np.float32)] * 6
    layers = [arena(trained, weights[:n], x)[0] for n in (3, 6)]
    # A layer more is an array of activations more, and not its gradient too.
    assert layers[1] - layers[0] <= 3 * 1.1 * x.nbytes


def test_donated_weights_are_not_copied():
    x = np.zeros((4096, 64), np.float32)
    weights = [np.zeros((64, 64), np.float32)] * 6
    _, found = arena(trained, weights, x, donated=(0,))
    assert sum(a.aliased_parameter >= 0 for a in found.allocations) == 6
    assert not any(found.moves.values())
