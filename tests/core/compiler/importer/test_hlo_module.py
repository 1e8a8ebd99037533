"""What is done to an HloModuleProto before it is read: donors, and start indices in one vector."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.formats import hlo_proto, wire_format
from tripont.core.compiler.importer import hlo_module, read_program
from tripont.core.compiler.ir import dtypes, hlo, verifier
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, Shape
from tripont.core.compiler.reference import evaluate

from . import oracle

RECORDED = Path(__file__).parents[3] / "data" / "programs" / "torch_xla_randperm.hlo"
S64 = Shape(dtypes.S64, ())


def _module(opcode: str) -> Module:
    x = hlo.parameter(0, Shape(dtypes.F32, (4, 5)), "x")
    update = hlo.parameter(1, Shape(dtypes.F32, (2, 3)), "update")
    indices = [hlo.parameter(2 + n, S64, f"i{n}") for n in range(2)]
    if opcode == "dynamic-slice":
        root = Instruction(opcode, update.shape, (x, *indices), {"slice_sizes": (2, 3)})
    else:
        root = Instruction(opcode, x.shape, (x, update, *indices))
    entry = Computation.from_root("main", (x, update, *indices), root)
    entry.assign_names()
    return Module("m", entry)


def _with_vector(program: bytes, opcode: str) -> bytes:
    """The program with its two scalar indices joined again: what modernize takes apart."""
    out = []
    for field in wire_format.fields(program):
        if field.number != 3:
            out.append(bytes(field.whole))
            continue
        instructions = [bytes(i) for i in wire_format.submessages(field.value, 2)]
        rest = [bytes(f.whole) for f in wire_format.fields(field.value) if f.number != 2]
        read = [hlo_module._read_instruction(memoryview(i)) for i in instructions]
        by_id = {i.id: i for i in read}
        changed = []
        for i in read:
            if i.opcode != opcode:
                changed.append(i.whole)
                continue
            first = 1 if opcode == "dynamic-slice" else 2
            scalars = [by_id[n] for n in i.operands[first:]]
            ones = [
                hlo_module._instruction("reshape", 1000 + n, s.element_type, (1,), s.id)
                for n, s in enumerate(scalars)
            ]
            joined = hlo_module._instruction(
                "concatenate", 1100, scalars[0].element_type, (2,), 1000
            )
            joined += wire_format.integers(36, [1001]) + wire_format.integers(14, [0])
            kept = b"".join(bytes(f.whole) for f in wire_format.fields(i.whole) if f.number != 36)
            changed += [*ones, joined]
            changed.append(kept + wire_format.integers(36, [*i.operands[:first], 1100]))
        body = b"".join([*rest, *(wire_format.message(2, i) for i in changed)])
        out.append(wire_format.message(3, body))
    return b"".join(out)


@pytest.mark.parametrize("opcode", ["dynamic-slice", "dynamic-update-slice"])
def test_start_indices_in_one_vector(opcode: str) -> None:
    plain = _module(opcode)
    proto = hlo_proto.write_module(plain)
    assert hlo_module.modernize(proto) is proto
    old = _with_vector(proto, opcode)
    assert old != proto
    read = read_program(old, "hlo")
    verifier.verify(read)
    x, update = np.arange(20, dtype=np.float32).reshape(4, 5), np.full((2, 3), -1, np.float32)
    for starts in itertools.product((0, 2), (1, 2)):
        arguments = [x, update, *(np.array(s, np.int64) for s in starts)]
        (got,) = evaluate.evaluate(read, arguments)
        (expected,) = evaluate.evaluate(plain, arguments)
        np.testing.assert_array_equal(got, expected)


def test_recorded_program() -> None:
    program = RECORDED.read_bytes()
    assert hlo_module.modernize(program) is not program
    read = read_program(program, "hlo")
    verifier.verify(read)
    slices = [
        i
        for c in read.computations()
        for i in c.instructions
        if i.opcode in ("dynamic-slice", "dynamic-update-slice")
    ]
    assert slices
    assert all(not o.dims for i in slices for o in i.operands[2:])


def test_buffer_donors() -> None:
    module = _module("dynamic-slice")
    assert read_program(hlo_proto.write_module(module), "hlo").buffer_donors == ()
    module.buffer_donors = (0, 2)
    program = hlo_proto.write_module(module)
    assert hlo_module.buffer_donors(program) == (0, 2)
    assert read_program(program, "hlo").buffer_donors == (0, 2)


@pytest.mark.parametrize("data", [b"dynamic-slice", b"\x1a\xff\xffdynamic-slice"])
def test_damaged_bytes(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"field|number"):
        hlo_module.modernize(data)


@pytest.mark.parametrize(("opcode", "expected"), [("exp2", np.exp2), ("log2", np.log2)])
def test_functions_of_newer_hlo(opcode: str, expected: Any) -> None:
    """jaxlib 0.12 writes these opcodes and does not convert them; 0.10 does not know them."""
    text = "HloModule m\nENTRY main {\n x = f32[5] parameter(0)\n ROOT r = f32[5] tanh(x)\n}"
    program = oracle.parse_hlo_text(text).as_serialized_hlo_module_proto()
    assert program.count(b"\x12\x04tanh") == 1  # the field "opcode"
    module = read_program(program.replace(b"tanh", opcode.encode()), "hlo")
    verifier.verify(module)
    x = np.array([0.1, 1, 3.5, 8, 60], np.float32)
    (result,) = evaluate.evaluate(module, [x])
    np.testing.assert_allclose(result, expected(x), rtol=1e-6)


def test_a_started_reduction_of_several_arrays_is_a_reduction() -> None:
    text = """HloModule m
add { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT s = f32[] add(a, b) }
ENTRY main {
 x = f32[5] parameter(0)
 y = f32[3] parameter(1)
 s = (f32[5], f32[3]) all-reduce-start(x, y), replica_groups={{0}}, to_apply=add
 ROOT r = (f32[5], f32[3]) all-reduce-done(s)
}"""
    program = oracle.parse_hlo_text(text).as_serialized_hlo_module_proto()
    module = read_program(program, "hlo")
    opcodes = [i.opcode for i in module.entry.instructions]
    assert opcodes.count("all-reduce") == 1
    assert [r.dims for r in module.entry.results] == [(5,), (3,)]


def test_a_program_that_converts_as_it_is_stays_itself() -> None:
    text = "HloModule m\nENTRY main {\n x = f32[5] parameter(0)\n ROOT r = f32[5] tanh(x)\n}"
    program = oracle.parse_hlo_text(text).as_serialized_hlo_module_proto()
    assert hlo_module.convertible(program) is program


def test_only_instructions_that_need_it_are_written_anew() -> None:
    """The words that tell a program which must be changed are looked for in each instruction too."""
    text = """HloModule m
ENTRY main {
 x = f32[5] parameter(0)
 a = f32[5] negate(x)
 b = f32[5] tanh(a)
 ROOT c = f32[5] negate(b)
}"""
    program = oracle.parse_hlo_text(text).as_serialized_hlo_module_proto()
    program = program.replace(b"\x12\x04tanh", b"\x12\x04log2")
    before = _instructions(program)
    after = _instructions(hlo_module.convertible(program))
    same = [a == b for a, b in zip(after, before, strict=True)]
    assert same == [True, True, False, True]
    assert b"tripont.log2" in after[2]


def _instructions(program: bytes) -> list[bytes]:
    (computation,) = wire_format.submessages(program, 3)
    return [bytes(i) for i in wire_format.submessages(computation, 2)]
