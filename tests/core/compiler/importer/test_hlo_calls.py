"""Custom calls of HloModuleProtos: read directly, they mean what they mean on the way through jaxlib."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.formats.wire_format import integer, integers, message, text
from tripont.core.compiler.importer import hlo_reader, program, read_program
from tripont.core.compiler.ir import verifier
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Module

from .test_hlo_reader import assert_same, module_of, shape

F32, S32, C64 = 11, 4, 15
MATRICES, VECTORS = shape(F32, 2, 4, 4), shape(F32, 2, 4)


def tuple_of(*shapes: bytes) -> bytes:
    return integer(2, 13) + b"".join(message(4, s) for s in shapes)


def called(
    target: str,
    *results: bytes,
    operand: bytes = MATRICES,
    operands: int = 1,
    more: bytes = b"",
    version: int = 1,
) -> bytes:
    """A program that is the custom call ``target`` of its parameter, of several results the first one."""
    several = len(results) > 1
    made = tuple_of(*results) if several else results[0]
    call = text(2, "custom-call") + message(3, made) + integer(35, 3 if several else 2)
    call += (
        integers(36, [1] * operands)
        + text(28, target)
        + message(68, b"")
        + integer(77, version)
        + more
    )
    instructions = [text(2, "parameter") + message(3, operand) + integer(35, 1), call]
    if several:
        taken = text(2, "get-tuple-element") + message(3, results[0]) + integer(35, 2)
        instructions.append(taken + integers(36, [3]))
    return module_of(*instructions, parameter=operand, result=results[0])


ROWS = shape(F32, 4, 8)
PROGRAMS = {
    "a transform": called(
        'tripont.fft$attributes{fft_type = "RFFT", fft_length = array<i64: 4, 8>}',
        shape(C64, 4, 5),
        operand=ROWS,
    ),
    "a quotient": called(
        "tripont.divide$attributes{}", shape(S32, 6), operand=shape(S32, 6), operands=2
    ),
    "lgamma": called("tripont.lgamma$attributes{}", ROWS, operand=ROWS),
    "lgamma without attributes": called("tripont.lgamma", ROWS, operand=ROWS),
    "igamma": called("tripont.igamma$attributes{}", ROWS, operand=ROWS, operands=2),
    "exp2": called("tripont.exp2", ROWS, operand=ROWS),
    "log2": called("tripont.log2", ROWS, operand=ROWS),
    "singular values": called(
        'tripont.svd$attributes{mode = "A"}', MATRICES, VECTORS, MATRICES
    ),
    "factors": called(
        "LuDecomposition$attributes{}", MATRICES, shape(S32, 2, 4), shape(S32, 2, 4)
    ),
    "reflectors": called("Qr", MATRICES, VECTORS),
    "eigenvectors": called("Eigh", MATRICES, VECTORS, more=text(43, "1,1,100,0.000001")),
    "a user's": called(
        'scale$attributes{factor = -3 : i64, name = "a b", sizes = array<i64>, more = array<i64: 1>}',
        MATRICES,
    ),
    "with an effect": called("tell", MATRICES, more=integer(65, 1)),
    "with a status": called("tell", MATRICES, version=2),
}  # fmt: skip


def through_jaxlib(data: bytes, monkeypatch: pytest.MonkeyPatch) -> Module:
    with monkeypatch.context() as patch:
        patch.setattr(program.hlo_reader, "read_module", lambda data: None)
        return read_program(data, "hlo")


@pytest.mark.parametrize("name", PROGRAMS)
def test_both_ways_are_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = hlo_reader.read_module(PROGRAMS[name])
    assert direct is not None
    assert_same(direct, through_jaxlib(PROGRAMS[name], monkeypatch))


def test_an_op_that_is_read_from_a_call() -> None:
    module = hlo_reader.read_module(PROGRAMS["a transform"])
    assert module is not None
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "fft"]
    assert module.entry.root.attributes == {"fft_type": "RFFT", "fft_length": (4, 8)}


def test_attributes_have_types() -> None:
    module = hlo_reader.read_module(PROGRAMS["a user's"])
    assert module is not None
    given = module.entry.root.attributes["backend_config"]
    assert (type(given["factor"]), given["factor"]) == (np.int64, -3)
    assert given["name"] == "a b"
    assert given["sizes"].dtype == given["more"].dtype == np.int64
    assert (given["sizes"].tolist(), given["more"].tolist()) == ([], [1])


OTHERS = {
    "a dialect's": called("mhlo.erf", ROWS, operand=ROWS),
    "one that is not known": called("chlo.whatever", ROWS, operand=ROWS),
    "one with a reader of its own": called("Sharding", ROWS, operand=ROWS),
    "a configuration beside attributes": called(
        "tripont.lgamma$attributes{}", ROWS, operand=ROWS, more=text(43, "a")
    ),
    "a configuration in JSON": called("scale", ROWS, operand=ROWS, more=text(43, "{}")),
    "another version": called("scale", ROWS, operand=ROWS, version=4),
    "another attribute": called("scale$attributes{by = 2.0 : f32}", ROWS, operand=ROWS),
    "attributes without an end": called("scale$attributes{", ROWS, operand=ROWS),
    "a comma at the end": called("scale$attributes{a = 1 : i64,}", ROWS, operand=ROWS),
    "an attribute twice": called("scale$attributes{a = 1 : i64, a = 1 : i64}", ROWS, operand=ROWS),
    "a number too large": called(f"scale$attributes{{a = {2**70} : i64}}", ROWS, operand=ROWS),
    "a transform of nothing": called("tripont.fft$attributes{}", ROWS, operand=ROWS),
    "a transform of two": called(
        'tripont.fft$attributes{fft_type = "RFFT", fft_length = array<i64: 4, 8>}',
        shape(C64, 4, 5),
        operand=ROWS,
        operands=2,
    ),
    "aliases": called("scale", ROWS, operand=ROWS, more=message(74, integer(2, 1))),
    "layouts": called("scale", ROWS, operand=ROWS, more=integer(56, 1)),
    "an op of two results": called("tripont.lgamma", ROWS, ROWS, operand=ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_left_to_jaxlib(name: str) -> None:
    assert hlo_reader.read_module(OTHERS[name]) is None


def test_errors_are_those_of_the_other_way() -> None:
    with pytest.raises(CompileError, match=r"tripont.fft takes a text fft_type"):
        read_program(OTHERS["a transform of nothing"], "hlo")
    wrong = called("tripont.divide", shape(S32, 7), operand=shape(S32, 6), operands=2)
    with pytest.raises(CompileError, match="divide"):
        verifier.verify_program(read_program(wrong, "hlo"))


@pytest.mark.parametrize("opcode", ["real", "imag"])
def test_parts_of_real_numbers(opcode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch/XLA writes them in the gradient of an absolute value."""
    part = text(2, opcode) + message(3, ROWS) + integer(35, 2) + integers(36, [1])
    parameter = text(2, "parameter") + message(3, ROWS) + integer(35, 1)
    data = module_of(parameter, part, parameter=ROWS, result=ROWS)
    direct = hlo_reader.read_module(data)
    assert direct is not None
    assert_same(direct, through_jaxlib(data, monkeypatch))
