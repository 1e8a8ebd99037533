"""Formats, recorded programs, damaged bytes, size and depth, signature attributes and error messages."""

from __future__ import annotations

import random
import sys
import textwrap
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tripont.core.compiler.formats import hlo_proto
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.importer.bytecode import check_envelope, producer
from tripont.core.compiler.ir import printer, verifier
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import AUTO_LAYOUT, Module

from tests.core.compiler import programs

PROGRAMS = Path(__file__).parents[3] / "data" / "programs"


def read_text(text: str) -> Module:
    module = read_program(textwrap.dedent(text).encode(), "mlir")
    verifier.verify(module)
    return module


def opcodes(module: Module) -> Counter[str]:
    return Counter(i.opcode for c in module.computations() for i in c.instructions)


# ------------------------------------------------------------------------------------------------------- recorded


def recorded(name: str) -> Module:
    path = PROGRAMS / name
    return read_program(path.read_bytes(), "hlo" if path.suffix == ".hlo" else "mlir")


@pytest.mark.parametrize("name", sorted(p.name for p in PROGRAMS.iterdir() if p.suffix != ".md"))
def test_recorded_programs_are_read(name: str) -> None:
    module = recorded(name)
    verifier.verify(module)
    assert module.name in printer.print_module(module)
    assert hlo_proto.write_module(module)


def test_recorded_operations() -> None:
    assert opcodes(recorded("torch_xla_convolution_step.hlo"))["batch-norm-training"] == 1
    assert opcodes(recorded("jax_top_k.mlir"))["topk"] == 1
    assert opcodes(recorded("jax_random_bits_rbg.mlir"))["rng-bit-generator"] == 1
    assert opcodes(recorded("tensorflow_random_uniform.hlo"))["rng"] == 1
    assert opcodes(recorded("tensorflow_mirrored_all_reduce.hlo"))["all-reduce"] == 1
    call = next(
        i for i in recorded("torch_xla_eigh.hlo").entry.instructions if i.opcode == "custom-call"
    )
    assert call.attributes["custom_call_target"] == "Eigh"
    assert call.attributes["backend_config"] == b"1,1,100,0.000001"


def test_aliases_of_both_formats() -> None:
    assert recorded("tensorflow_function_with_alias.hlo").input_output_aliases == ((2, 1, False),)
    assert recorded("jax_sharded_sharding_constraint.mlir").input_output_aliases == ((0, 0, False),)


def test_number_of_partitions() -> None:
    assert recorded("jax_sharded_two_devices.mlir").num_partitions == 2


# -------------------------------------------------------------------------------------------------------- damaged


@pytest.mark.parametrize("format", ["mlir", "hlo"])
def test_empty_program(format: str) -> None:
    with pytest.raises(CompileError, match="empty") as caught:
        read_program(b"", format)
    assert caught.value.code == "INVALID_ARGUMENT"


def test_unknown_format() -> None:
    with pytest.raises(CompileError, match="unknown program format 'onnx'") as caught:
        read_program(b"x", "onnx")
    assert caught.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["jax_scan.mlir", "tensorflow_softmax.hlo"])
def test_truncated_program(name: str) -> None:
    program = (PROGRAMS / name).read_bytes()
    format = "hlo" if name.endswith("hlo") else "mlir"
    for length in range(1, len(program), 41):
        with pytest.raises(CompileError) as caught:
            read_program(program[:length], format)
        assert caught.value.code == "INVALID_ARGUMENT", length


def test_garbage() -> None:
    numbers = random.Random(5)
    for prefix in (b"", b"ML\xefR", b"ML\xefR\rStableHLO_v1.0.0\x00", b"module {"):
        for _ in range(20):
            garbage = prefix + bytes(
                numbers.randrange(256) for _ in range(numbers.randrange(1, 200))
            )
            for format in ("mlir", "hlo"):
                with pytest.raises(CompileError) as caught:
                    read_program(garbage, format)
                assert caught.value.code == "INVALID_ARGUMENT"


FUZZED = Path(__file__).parents[3] / "fuzzers" / "corpus" / "hlo_proto"


@pytest.mark.parametrize(
    "name",
    [
        "all_reduce_done_of_nothing",
        "instruction_that_is_a_number",
        "instruction_that_is_a_number_2",
        "index_vector_of_huge_size",
        "donor_that_is_bytes",
    ],
)
def test_protos_that_were_found_by_fuzzing(name: str) -> None:
    """Before jaxlib sees them, we take parts of such messages for what they are not."""
    with pytest.raises(CompileError) as caught:
        read_program((FUZZED / name).read_bytes(), "hlo")
    assert caught.value.code == "INVALID_ARGUMENT", caught.value


def test_bytecode_envelope() -> None:
    program = (PROGRAMS / "jax_scan.mlir").read_bytes()
    assert producer(program).startswith("StableHLO_v")
    check_envelope(program)
    with pytest.raises(CompileError, match="missing at the end"):
        check_envelope(program[:-3])
    with pytest.raises(CompileError, match="damaged"):
        check_envelope(program + b"\xff\xff")


def test_syntax_error_names_the_place() -> None:
    with pytest.raises(CompileError, match=r"not valid StableHLO.*1:17") as caught:
        read_program(b"func.func @main( {", "mlir")
    assert caught.value.code == "INVALID_ARGUMENT"


def test_no_main() -> None:
    with pytest.raises(CompileError, match="no function named main"):
        read_text("func.func private @f() { return }\nfunc.func private @g() { return }")


def test_nothing_is_written_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CompileError):
        read_program(b"func.func @main( {", "mlir")
    assert capfd.readouterr().err == ""


# ---------------------------------------------------------------------------------------------------- unsupported


def unimplemented(text: str) -> str:
    with pytest.raises(CompileError) as caught:
        read_program(text.encode(), "mlir")
    assert caught.value.code == "UNIMPLEMENTED"
    return str(caught.value)


def test_unsupported_operation_names_shapes_and_source() -> None:
    message = unimplemented(
        """func.func @main(%t: !stablehlo.token, %a: tensor<3xf32>) -> !stablehlo.token {
        %0 = "stablehlo.outfeed"(%a, %t) {outfeed_config = ""}
            : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token loc("jit(f)/outfeed"("model.py":12:1))
        return %0 : !stablehlo.token }"""
    )
    assert message == (
        "stablehlo.outfeed(f32[3], !stablehlo.token) -> !stablehlo.token: this operation is not supported"
        " (jit(f)/outfeed at model.py:12)"
    )


def test_dynamic_parameter() -> None:
    message = unimplemented(
        """func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {
        %0 = stablehlo.sine %a : tensor<?xf32>
        return %0 : tensor<?xf32> }"""
    )
    assert "parameter 0" in message
    assert "tensor<?xf32>" in message


def test_unregistered_dialect() -> None:
    message = unimplemented(
        """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
        %0 = "foo.bar"(%a) : (tensor<4xf32>) -> tensor<4xf32>
        return %0: tensor<4xf32> }"""
    )
    assert "unregistered dialect" in message


def test_recursive_function() -> None:
    message = unimplemented(
        """func.func @main(%a: tensor<f32>) -> tensor<f32> {
        %0 = call @main(%a) : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32> }"""
    )
    assert "@main calls itself" in message


def test_reduction_that_captures() -> None:
    message = unimplemented(
        """func.func @main(%a: tensor<8xf32>, %s: tensor<f32>) -> tensor<f32> {
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = "stablehlo.reduce"(%a, %z) ({ ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %1 = stablehlo.add %x, %s : tensor<f32>
            stablehlo.return %1 : tensor<f32>
        }) {dimensions = array<i64: 0>} : (tensor<8xf32>, tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32> }"""
    )
    assert "only while, if and case may do" in message


def test_program_for_several_devices_must_be_partitioned() -> None:
    message = unimplemented(
        """sdy.mesh @mesh = <["x"=2]>
        func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
        %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"x"}]>] out_shardings=[<@mesh, [{"x"}]>]
            manual_axes={"x"} (%b: tensor<4xf32>) {
            sdy.return %b : tensor<4xf32>
        } : (tensor<8xf32>) -> tensor<8xf32>
        return %0 : tensor<8xf32> }"""
    )
    assert "must be partitioned" in message


# --------------------------------------------------------------------------------------------------- size and depth


def test_deep_nesting() -> None:
    depth = 400
    text = programs.nested_branches(depth)
    before = sys.getrecursionlimit()
    module = read_text(text)
    assert sys.getrecursionlimit() == before
    assert opcodes(module)["conditional"] == depth
    assert hlo_proto.write_module(module)


def test_long_program() -> None:
    length = 50_000
    lines = ["func.func public @main(%a0: tensor<8xf32>) -> tensor<8xf32> {"]
    lines += [f"%a{i + 1} = stablehlo.sine %a{i} : tensor<8xf32>" for i in range(length)]
    lines.append(f"return %a{length} : tensor<8xf32> }}")
    module = read_text("\n".join(lines))
    assert opcodes(module)["sine"] == length
    printer.print_module(module)


def test_chain_of_calls() -> None:
    depth = 2000
    signature = "(%a: tensor<8xf32>) -> tensor<8xf32>"

    def body(callee: str) -> str:
        return (
            f"%0 = call @{callee}(%a) : (tensor<8xf32>) -> tensor<8xf32>\nreturn %0 : tensor<8xf32>"
        )

    functions = [f"func.func @main{signature} {{ {body('f0')} }}"]
    functions += [
        f"func.func private @f{i}{signature} {{ {body(f'f{i + 1}')} }}" for i in range(depth)
    ]
    functions.append(f"func.func private @f{depth}{signature} {{ return %a : tensor<8xf32> }}")
    assert opcodes(read_text("\n".join(functions)))["call"] == depth + 1


# ------------------------------------------------------------------------------------------------------- signature


def test_donation_and_memory_kinds() -> None:
    module = read_text(
        """
        module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 2 : i32,
            mhlo.frontend_attributes = {a = "b"}} {
          func.func @main(
            %a: tensor<3xf32> {tf.aliasing_output = 1 : i32},
            %b: tensor<3xf32> {jax.buffer_donor = true, mhlo.memory_kind = "pinned_host"},
            %c: tensor<3xf32> {mhlo.layout_mode = "default"}
          ) -> (tensor<3xf32> {jax.result_info = "[0]"}, tensor<3xf32> {mhlo.memory_kind = "unpinned_host"}) {
            %0 = stablehlo.add %a, %b : tensor<3xf32>
            return %c, %0 : tensor<3xf32>, tensor<3xf32>
          }
        }"""
    )
    assert module.name == "jit_f"
    assert module.num_replicas == 2
    assert module.frontend_attributes == {"a": "b"}
    assert module.input_output_aliases == ((1, 0, False),)
    assert module.buffer_donors == (1,)
    assert module.parameter_memory_kinds == ("device", "pinned_host", "device")
    assert module.result_memory_kinds == ("device", "unpinned_host")


def test_layouts() -> None:
    program = """func.func @main(%a: tensor<3x4xf32> {{mhlo.layout_mode = "{}"}}, %b: tensor<f32>)
        -> (tensor<3x4xf32> {{mhlo.layout_mode = "{}"}}) {{ return %a : tensor<3x4xf32> }}"""
    for mode, layout in {
        "default": None,
        "{0,1}": (0, 1),
        "{0,1:E(4)}": (0, 1),
        "auto": AUTO_LAYOUT,
    }.items():
        module = read_text(program.format(mode, "{1,0}"))
        assert module.parameter_layouts == (() if layout is None else (layout, None))
        assert module.result_layouts == ((1, 0),)
    tiled = unimplemented(program.format("{1,0:T(8,128)}", "default"))
    assert "parameter 0 must have the layout" in tiled


def test_locations_become_metadata() -> None:
    module = read_text(
        """func.func @main(%a: tensor<3xf32> loc("x")) -> tensor<3xf32> {
        %0 = stablehlo.sine %a : tensor<3xf32>
            loc("jit(f)/sin"(callsite("inner"("inner.py":3:1) at "outer"("outer.py":9:1))))
        %1 = stablehlo.cosine %0 : tensor<3xf32> loc(fused["named", "other.py":5:1])
        %2 = stablehlo.tanh %1 : tensor<3xf32> loc(unknown)
        return %2 : tensor<3xf32> }"""
    )
    found = [str(i.metadata) for i in module.entry.instructions]
    assert found == ["x", "jit(f)/sin at inner.py:3", "named at other.py:5", "None"]


def test_threads_may_read_at_once() -> None:
    program = (PROGRAMS / "jax_scan.mlir").read_bytes()
    expected = printer.print_module(read_program(program, "mlir"))
    with ThreadPoolExecutor(8) as pool:
        texts = list(
            pool.map(lambda _: printer.print_module(read_program(program, "mlir")), range(100))
        )
    assert set(texts) == {expected}
