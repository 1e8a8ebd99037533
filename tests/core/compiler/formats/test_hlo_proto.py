"""HloModuleProto as we write it, read back by XLA. (Its meaning is tested with the importer, program by program.)"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tripont.core.compiler.formats import hlo_proto
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir import dtypes, hlo, verifier
from tripont.core.compiler.ir.hlo import Computation, Instruction, Metadata, Module, Shape
from tripont.core.compiler.ir.registry import OPS, all_ops

from tests.core.compiler.counting import count_calls
from tests.core.compiler.importer import jax_programs, oracle

PROGRAMS = Path(__file__).parents[3] / "data" / "programs"
F32_4 = Shape(dtypes.F32, (4,))


def module_of(root: Instruction, *parameters: Instruction, **fields: object) -> Module:
    entry = Computation.from_root("main", parameters, root)
    entry.assign_names()
    module = Module("m", entry, **fields)  # type: ignore[arg-type]
    verifier.verify(module)
    return module


def text_of(module: Module) -> str:
    return oracle.xla_text(hlo_proto.write_module(module))


@pytest.mark.parametrize("name", sorted(p.name for p in PROGRAMS.iterdir() if p.suffix != ".md"))
def test_recorded_programs(name: str) -> None:
    path = PROGRAMS / name
    module = read_program(path.read_bytes(), "hlo" if path.suffix == ".hlo" else "mlir")
    text = text_of(module)
    for computation in module.computations():
        for instruction in computation.instructions:
            spelled = {"optimization-barrier": "opt-barrier"}.get(
                instruction.opcode, instruction.opcode
            )
            assert f"{spelled}(" in text


@pytest.mark.parametrize(
    "name", ["while", "while_single", "nested_capture", "cond", "switch", "barrier"]
)
def test_control_flow_reads_back(name: str) -> None:
    function, *arguments = jax_programs.CONTROL_FLOW[name]
    text = oracle.program_text(oracle.lower(function, *arguments))
    module = read_program(text.encode(), "mlir")
    again = read_program(hlo_proto.write_module(module), "hlo")
    verifier.verify(again)
    assert [p.shape for p in again.entry.parameters] == [p.shape for p in module.entry.parameters]
    assert [r.shape for r in again.entry.results] == [r.shape for r in module.entry.results]


def test_header() -> None:
    a, b = hlo.parameter(0, F32_4, "a"), hlo.parameter(1, F32_4, "b")
    total = Instruction("add", F32_4, (a, b), metadata=Metadata("jit(f)/add", "model.py", 12))
    root = Instruction("tuple", hlo.TupleShape((total.shape, a.shape)), (total, a))
    aliases = ((0, 1, False), (1, 0, True))
    text = text_of(module_of(root, a, b, input_output_aliases=aliases, buffer_donors=(1,)))
    assert "input_output_alias={ {0}: (1, {}, may-alias), {1}: (0, {}, must-alias) }" in text
    assert "entry_computation_layout={(f32[4]{0}, f32[4]{0})->(f32[4]{0}, f32[4]{0})}" in text


def test_metadata_is_kept() -> None:
    a = hlo.parameter(0, F32_4, "a")
    root = Instruction("sine", F32_4, (a,), metadata=Metadata("jit(f)/sin", "model.py", 12))
    again = read_program(hlo_proto.write_module(module_of(root, a)), "hlo")
    assert again.entry.root.metadata == Metadata("jit(f)/sin", "model.py", 12)


@pytest.mark.parametrize(
    ("kind", "spelled"), [("loop", "kLoop"), ("reduce", "kInput"), ("row", "kInput")]
)
def test_fusion(kind: str, spelled: str) -> None:
    p = hlo.parameter(0, F32_4)
    inner = Computation.from_root("fused", (p,), Instruction("sine", F32_4, (p,)))
    inner.assign_names()
    a = hlo.parameter(0, F32_4, "a")
    text = text_of(module_of(Instruction("fusion", F32_4, (a,), {"kind": kind}, (inner,)), a))
    assert f"fusion(a), kind={spelled}, calls=fused" in text


def test_library_call_is_a_custom_call() -> None:
    a = hlo.parameter(0, F32_4, "a")
    config = {"transpose": True, "alpha": 0.5, "dims": (1, 2)}
    root = Instruction("library-call", F32_4, (a,), {"name": "gemm", "config": config})
    text = text_of(module_of(root, a))
    assert 'custom_call_target="tripont$gemm"' in text
    assert '"alpha":0.5' in text


def collective(name: str, operands: int, **config: object) -> str:
    """How a program says a call of the runtime that is a collective of f32[4] among four devices."""
    parameters = [hlo.parameter(n, F32_4, f"p{n}") for n in range(operands)]
    scalar = Shape(dtypes.F32)
    x, y = hlo.parameter(0, scalar, "x"), hlo.parameter(1, scalar, "y")
    add = Computation.from_root("sum", (x, y), Instruction("add", scalar, (x, y)))
    shape = F32_4 if operands == 1 else hlo.TupleShape((F32_4,) * operands)
    attributes = {"name": name, "config": {"meeting": 7, "cost_ns": 1.0, **config}}
    called = (add,) if "reduce" in name else ()
    text = text_of(
        module_of(Instruction("library-call", shape, parameters, attributes, called), *parameters)
    )
    return next(line for line in text.splitlines() if f" {name}(" in line)


@pytest.mark.parametrize("operands", [1, 2])
@pytest.mark.parametrize("name", ["all-reduce", "all-gather", "all-to-all", "reduce-scatter"])
def test_collective_calls_are_those_of_hlo(name: str, operands: int) -> None:
    line = collective(name, operands, channel=3, groups=(0, 2, 1, 3), group_sizes=(2, 2))
    assert "channel_id=3, replica_groups={{0,2},{1,3}}" in line
    assert "dimensions={0}" in line or name == "all-reduce" or (name, operands) == ("all-to-all", 2)
    assert ("to_apply=" in line) == ("reduce" in name)
    assert '"meeting":7' in line
    assert "group_sizes" not in line  # said already


def test_permutations_name_sources_and_targets() -> None:
    line = collective(
        "collective-permute", 1, channel=0, sources=(1, -1, 0, -1), groups=(), group_sizes=()
    )
    assert "source_target_pairs={{1,0},{0,2}}" in line


def test_large_constants_are_left_out() -> None:
    small = hlo.constant(np.arange(4, dtype=np.float32))
    large = hlo.constant(np.ones((1000, 4), np.float32))
    added = Instruction("add", large.shape, (large, hlo.broadcast(small, (1000, 4), (1,))))
    proto = hlo_proto.write_module(module_of(added))
    assert len(proto) < 2000
    text = oracle.xla_text(proto)
    assert "constant({...})" in text
    assert "constant({0, 1, 2, 3})" in text


def test_the_same_names_in_two_computations() -> None:
    """HLO wants instruction names unique in the module, ours are unique in a computation."""
    scalar = Shape(dtypes.F32)
    bodies = []
    for name, opcode in (("first", "add"), ("second", "multiply")):
        x, y = hlo.parameter(0, scalar, "x"), hlo.parameter(1, scalar, "y")
        bodies.append(
            Computation.from_root(name, (x, y), Instruction(opcode, scalar, (x, y), name="r"))
        )
    a = hlo.parameter(0, F32_4, "x")
    zero = hlo.constant(0.0, dtypes.F32)
    reduces = [Instruction("reduce", scalar, (a, zero), {"dimensions": (0,)}, (b,)) for b in bodies]
    text = text_of(module_of(Instruction("add", scalar, reduces), a))
    assert text.count(" parameter(") == 5


def test_program_shape_is_a_field_of_its_own() -> None:
    """PJRT copies field 4 of the module into the config of an HloModuleProtoWithConfig."""
    a = hlo.parameter(0, F32_4, "a")
    text = text_of(module_of(Instruction("sine", F32_4, (a,)), a))
    assert "entry_computation_layout={(f32[4]{0})->f32[4]{0}}" in text


@pytest.mark.parametrize("value", [0, 1, 127, 128, 300, 2**31, 2**63 - 1, -1, -(2**63)])
def test_varints_are_read_back(value: int) -> None:
    constant = hlo.constant(np.array([value, 5], np.int64))
    again = read_program(hlo_proto.write_module(module_of(constant)), "hlo")
    literal = next(i for i in again.entry.instructions if i.opcode == "constant").attributes[
        "literal"
    ]
    assert literal.tolist() == [value, 5]


def chain(count: int) -> Module:
    """Sines, one after another."""
    a = hlo.parameter(0, F32_4, "a")
    value = a
    for _ in range(count):
        value = Instruction("sine", F32_4, (value,), metadata=Metadata("jit(f)/sin", "model.py", 1))
    return module_of(value, a)


def test_work_and_length_grow_as_modules_do() -> None:
    small, large = chain(500), chain(2000)
    hlo_proto.write_module(large)  # imports, and ids that all modules share
    calls = [count_calls(lambda m=m: hlo_proto.write_module(m)) for m in (small, large)]
    assert calls[1] <= 4.1 * calls[0]
    assert len(hlo_proto.write_module(large)) < 400_000


@pytest.mark.parametrize(
    "opcode", ["acos", "asin", "cosh", "erf", "sinh", *(o.name for o in all_ops() if o.hlo_call)]
)
def test_functions_that_hlo_lacks_read_back(opcode: str) -> None:
    """XLA takes them, whether HLO has the operation (as opcodes of CHLO) or not: then they are custom calls there."""
    x = hlo.parameter(0, F32_4, "x")
    module = module_of(Instruction(opcode, F32_4, (x,) * OPS[opcode].operands), x)
    spelled = "custom-call" if OPS[opcode].hlo_call else opcode
    assert f"{spelled}(" in text_of(module)
    again = read_program(hlo_proto.write_module(module), "hlo")
    assert [i.opcode for i in again.entry.instructions] == ["parameter", opcode]
