"""What XLA's partitioner asks of another process: questions, answers, errors."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence

import numpy as np
import pytest
from jaxlib import xla_client
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.xla import partitioners
from tripont.core.compiler.xla.partition import BuildOptions, partition
from tripont.core.compiler.xla.partitioners import Question

ADDRESS = b"\1\2\3\0\xff567" * 2


def program(target: str) -> bytes:
    config = "".join(f"\\{byte:02X}" for byte in ADDRESS)
    return f"""
module attributes {{mhlo.num_partitions = 2 : i32}} {{
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<4x2xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{"x"}}, {{}}]>}})
      -> (tensor<4x2xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{}}]>}}) {{
    %y = stablehlo.custom_call @{target}(%x) {{
      backend_config = "{config}", has_side_effect = true,
      sdy.sharding_rule = #sdy.op_sharding_rule<([i, j])->([i, j]) {{i=4, j=2}}, custom>
    }} : (tensor<4x2xf32>) -> tensor<4x2xf32>
    return %y : tensor<4x2xf32>
  }}
}}""".encode()


def sharding(data: bytes) -> xla_client.HloSharding:
    proto = xla_client.OpSharding()
    proto.ParseFromString(data)
    return xla_client.HloSharding.from_proto(proto)


def test_an_inspection_is_a_question() -> None:
    asked = []

    def ask(name: str, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        asked.append((name, question, parts[0], sharding(parts[1]).tile_assignment_dimensions()))
        return []

    with partitioners.of_process({partitioners.INSPECT: True}, ask):
        found = partition(program(partitioners.INSPECT), "mlir", BuildOptions(1, 2))
    assert asked == [(partitioners.INSPECT, Question.INSPECT, ADDRESS, [2, 1])]
    assert found.by_functions
    assert partitioners.process() is None


# Ways to write an inspection: the name with an escape, another dialect, another attribute for the bytes.
HIDDEN = {
    "escaped": lambda text: text.replace(b"@InspectSharding", b'@"Inspect\\53harding"'),
    "mhlo": lambda text: text.replace(b"stablehlo.custom_call", b"mhlo.custom_call"),
    "second attribute": lambda text: text.replace(
        b"backend_config =", b'backend_config = "", mhlo.backend_config ='
    ),
}


@pytest.mark.parametrize("way", HIDDEN)
def test_the_address_in_a_program_is_never_called(way: str) -> None:
    """XLA, in this process, calls the address that it finds: here a function's that exists."""
    called: list[object] = []
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    function = kind(lambda *arguments: called.append(arguments))
    address = struct.pack("<QQ", ctypes.cast(function, ctypes.c_void_p).value or 0, 0)
    escaped = ["".join(f"\\{byte:02X}" for byte in bytes_) for bytes_ in (ADDRESS, address)]
    code = program(partitioners.INSPECT).replace(*(text.encode() for text in escaped))
    code = HIDDEN[way](code)
    asked: list[bytes] = []

    def ask(name: str, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        asked.append(parts[0])
        return []

    with partitioners.of_process({partitioners.INSPECT: True}, ask):
        partition(code, "mlir", BuildOptions(1, 2))
    assert asked == [b"" if way == "second attribute" else address]
    with pytest.raises(CompileError, match="not where the program is compiled"):
        partition(code, "mlir", BuildOptions(1, 2))
    assert not called


def test_a_partition_is_a_question() -> None:
    """Each device's half is what the answer says, and another answer makes another executable."""

    def ask(name: str, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        assert (name, question) == ("test.twice", Question.PARTITION)
        config, shape, result, operand_shape, operand = parts
        assert (config, shape) == (ADDRESS, operand_shape)
        assert result[:1] == operand[:1] == b"\1"
        module = b"""
func.func @main(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %y = stablehlo.multiply %x, %x : tensor<2x2xf32>
  return %y : tensor<2x2xf32>
}"""
        return [module, operand[1:], operand[1:]]

    code = program("test.twice")
    with partitioners.of_process({"test.twice": True}, ask):
        first = artifact.deserialize(compile_program(code, "mlir", b"", {}))
    assert [str(p.shape) for p in first.parameters] == ["f32[2,2]"]
    assert [str(r.shape) for r in first.results] == ["f32[4,2]"]

    def ask_another(name: str, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        module, *shardings = ask(name, question, parts)
        return [module.replace(b"multiply", b"add"), *shardings]

    with partitioners.of_process({"test.twice": True}, ask_another):
        second = artifact.deserialize(compile_program(code, "mlir", b"", {}))
    assert first.fingerprint != second.fingerprint  # of the same program


def test_the_first_error_is_that_of_the_compile() -> None:
    def ask(name: str, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        raise CompileError("OUT_OF_RANGE", "not this one")

    with (
        partitioners.of_process({"test.refused": True}, ask),
        pytest.raises(CompileError, match=r"^partitioning for 2 devices: not this one$") as caught,
    ):
        partition(program("test.refused"), "mlir", BuildOptions(1, 2))
    assert caught.value.code == "OUT_OF_RANGE"


def test_nothing_is_asked_after_an_error() -> None:
    """XLA would end the process if a partitioner did not infer a sharding: it is told that there is none."""
    asked = []

    def ask(name: str, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        asked.append(question)
        raise CompileError("INTERNAL", "no")

    shape = xla_client.Shape.array_shape(np.dtype(np.float32), (4, 2))
    replicated = xla_client.HloSharding.replicate()
    stand_in = partitioners._StandIn("test")
    with partitioners.of_process({"test": True}, ask):
        assert stand_in.infer_sharding_from_operands([shape], [None], shape, b"") is None
        assert stand_in.propagate_user_sharding(replicated, shape, b"") is replicated
        with pytest.raises(CompileError, match="no"):
            stand_in.partition([shape], [replicated], shape, None, b"")
    assert asked == [Question.INFER]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        (partitioners.INSPECT, "inspect_array_sharding"),
        ("CustomSPMDPartitioning", "custom_partitioning"),
    ],
)
def test_without_its_process_a_program_is_refused_by_name(target: str, name: str) -> None:
    with pytest.raises(CompileError, match=rf"{name} .*not where the program is compiled") as error:
        compile_program(program(target), "mlir", b"", {})
    assert error.value.code == "UNIMPLEMENTED"
