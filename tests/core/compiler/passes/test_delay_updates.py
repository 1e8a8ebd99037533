"""Updates in place come behind the readers of what was there, unless that would change an order that counts."""

from __future__ import annotations

import numpy as np
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, TupleShape
from tripont.core.compiler.passes.delay_updates import delay_updates
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import op, parameter


def update_of(h: Instruction, row: Instruction, at: int) -> Instruction:
    zero = hlo.constant(np.int32(0))
    return op("dynamic-update-slice", h, row, hlo.constant(np.int32(at)), zero)


def module_of(parameters, instructions, *results) -> Module:
    shape = TupleShape(tuple(r.shape for r in results))
    root = Instruction("tuple", shape, results)
    constants = [o for i in instructions for o in i.operands if o.opcode == "constant"]
    order = [*parameters, *dict.fromkeys(constants), *instructions, root]
    return Module("m", Computation("main", parameters, order, root))


def opcodes(module: Module) -> list[str]:
    dull = ("parameter", "constant", "tuple")
    return [i.opcode for i in module.entry.instructions if i.opcode not in dull]


def test_reader_goes_first():
    h, row = parameter(0, 4, 3), parameter(1, 1, 3)
    update, reader = update_of(h, row, 2), op("negate", h)
    module = module_of([h, row], [update, reader], update, reader)
    delayed = delay_updates(module)
    assert opcodes(delayed) == ["negate", "dynamic-update-slice"]
    arguments = [np.arange(12, dtype=np.float32).reshape(4, 3), np.ones((1, 3), np.float32)]
    for a, b in zip(evaluate(delayed, arguments), evaluate(module, arguments), strict=True):
        np.testing.assert_array_equal(a, b)


def test_reader_by_another_name_goes_first():
    h, row = parameter(0, 4, 3), parameter(1, 1, 3)
    update, flat = update_of(h, row, 2), op("bitcast", h, dims=(12,))
    reader = op("negate", flat)
    module = module_of([h, row], [update, flat, reader], update, reader)
    assert opcodes(delay_updates(module)) == ["bitcast", "negate", "dynamic-update-slice"]


def test_what_reads_the_update_goes_along():
    h, row = parameter(0, 4, 3), parameter(1, 1, 3)
    update = update_of(h, row, 2)
    after, reader = op("exponential", update), op("negate", h)
    module = module_of([h, row], [update, after, reader], after, reader)
    assert opcodes(delay_updates(module)) == ["negate", "dynamic-update-slice", "exponential"]


def test_reader_that_needs_the_update_stays_behind():
    h, row = parameter(0, 4, 3), parameter(1, 1, 3)
    update = update_of(h, row, 2)
    reader = op("add", h, update)
    module = module_of([h, row], [update, reader], reader)
    assert delay_updates(module).entry is module.entry


def collective(meeting: int, operand: Instruction) -> Instruction:
    attributes = {"name": "all-reduce", "config": {"meeting": meeting}}
    return Instruction("library-call", operand.shape, (operand,), attributes)


def test_collectives_keep_their_order():
    """Who else reads the array, which differs between processes, does not decide which collective comes first."""
    h, row, x = parameter(0, 4, 3), parameter(1, 1, 3), parameter(2, 5)
    update = update_of(h, row, 2)
    first, second, reader = collective(0, update), collective(1, x), op("negate", h)
    module = module_of([h, row, x], [update, first, second, reader], first, second, reader)
    assert delay_updates(module).entry is module.entry


def test_a_collective_alone_goes_along():
    h, row = parameter(0, 4, 3), parameter(1, 1, 3)
    update = update_of(h, row, 2)
    reduced, reader = collective(0, update), op("negate", h)
    module = module_of([h, row], [update, reduced, reader], reduced, reader)
    assert opcodes(delay_updates(module)) == ["negate", "dynamic-update-slice", "library-call"]


def test_side_effects_keep_their_order():
    h, row = parameter(0, 4, 3), parameter(1, 1, 3)
    update = update_of(h, row, 2)
    call = {
        "custom_call_target": "f",
        "backend_config": b"",
        "api_version": 1,
        "has_side_effect": True,
        "output_operand_aliases": (),
    }
    first, reader = op("custom-call", update, **call), op("custom-call", h, **call)
    module = module_of([h, row], [update, first, reader], first, reader)
    assert delay_updates(module).entry is module.entry
