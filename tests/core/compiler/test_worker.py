"""The compile worker's answer to one request. (The protocol's other side is tested in tests/core/runtime.)"""

from __future__ import annotations

import socket
import struct
import subprocess
import sys
from typing import Any

import pytest
from tripont.core.compiler import worker
from tripont.core.compiler.ir.errors import STATUS_CODES, CompileError
from tripont.core.schema import messages

INFER = messages.PartitioningQuestion.INFER


#: No machine code is kept.
NOWHERE = messages.CodeFolder(b"", 0, False)


def request(program: bytes, options: dict[str, str]) -> bytearray:
    partitioners = (messages.PartitionerName("a partitioner", True),)
    fields = worker.CODEC.write(
        messages.Request("mlir", program, b"proto", options, partitioners, NOWHERE)
    )
    return bytearray(fields)


def test_the_compiler_has_the_only_copy_of_the_program():
    payload = request(b"program", {"target": "host", "cpu": ""})
    seen = []

    def compile_program(program, format_, options_proto, options):
        seen.append((program, format_, options_proto, options, len(payload)))
        return b"artifact"

    assert worker.handle(payload, compile_program) == messages.Response(0, artifact=b"artifact")
    assert seen == [(b"program", "mlir", b"proto", {"target": "host", "cpu": ""}, 0)]


@pytest.mark.parametrize("end", [0, 3, 10, 20, -1])
def test_a_request_that_ends_early_is_an_error(end):
    payload = request(b"program", {"target": "host"})[:end]
    response = worker.handle(payload, lambda *_: b"never")
    assert response.code == STATUS_CODES["INTERNAL"]
    assert b"the bytes end early" in response.message
    assert response.artifact == b""


def test_an_error_for_the_user_keeps_its_code():
    def compile_program(*_):
        raise CompileError("UNIMPLEMENTED", "not this")

    response = worker.handle(request(b"", {}), compile_program)
    assert (response.code, response.message) == (STATUS_CODES["UNIMPLEMENTED"], b"not this")


def test_a_package_that_is_missing_is_named():
    def compile_program(*_):
        import no_such_package.part  # noqa: F401

    response = worker.handle(request(b"", {}), compile_program)
    assert response.code == STATUS_CODES["FAILED_PRECONDITION"]
    assert b"needs the package no_such_package, which " in response.message
    assert b"-m pip install no_such_package`" in response.message


def test_a_missing_module_of_the_compiler_itself_is_a_bug():
    def compile_program(*_):
        import tripont.no_such_module  # noqa: F401

    response = worker.handle(request(b"", {}), compile_program)
    assert response.code == STATUS_CODES["INTERNAL"]
    assert b"tripont.no_such_module" in response.message


def test_a_question_and_its_answer():
    def answer(reply: bytes) -> tuple[Any, bytes]:
        here, there = socket.socketpair()
        with here, there:
            there.sendall(reply)
            try:
                result: Any = worker.ask(here, "name", INFER, [b"one", b""])
            except CompileError as error:
                result = (error.code, str(error))
            return result, there.recv(1000)

    def reply(code: int, message: bytes, parts: list[bytes]) -> bytes:
        fields = worker.CODEC.write(messages.Answer(code, message, tuple(parts)))
        return worker.FRAME.pack(messages.Answer.NUMBER, len(fields)) + fields

    question = struct.pack("<4sQ", b"TPQU", 32) + struct.pack("<I", 4) + b"name"
    question += struct.pack("<BI", 2, 2) + struct.pack("<Q", 3) + b"one" + struct.pack("<Q", 0)
    assert answer(reply(0, b"", [b"a", b""])) == ([b"a", b""], question)
    refused = reply(STATUS_CODES["OUT_OF_RANGE"], b"too much", [])
    assert answer(refused)[0] == ("OUT_OF_RANGE", "too much")
    assert answer(reply(99, b"what", []))[0] == ("UNKNOWN", "what")
    not_answered = ("INTERNAL", "a question about name was not answered")
    assert answer(struct.pack("<IQ", messages.Request.NUMBER, 0))[0] == not_answered


PREPARED = """
import sys

from tripont.core.compiler import worker
compile_program = worker.prepare()
known = set(sys.modules)
text = "func.func @main(%x: TYPE) -> TYPE { %y = stablehlo.sine %x : TYPE return %y : TYPE }"
program = text.replace("TYPE", "tensor<8xf32>").encode()
compile_program(program, "mlir", b"", {"target": "host"})
packages = ("llvmlite", "tripont.core.compiler.ops.", "tripont.core.compiler.targets.")
print(sorted(name for name in set(sys.modules) - known if name.startswith(packages)))
"""


def test_the_first_program_finds_what_compiling_takes_imported():
    printed = subprocess.run([sys.executable, "-c", PREPARED], check=True, capture_output=True)
    assert printed.stdout == b"[]\n"
    assert printed.stderr == b""


def test_a_package_that_cannot_be_imported_is_an_error_of_the_first_program(monkeypatch):
    from tripont.core.compiler import targets
    from tripont.core.compiler.compile import compile_program

    def without_llvm(options):
        raise ModuleNotFoundError("No module named 'llvmlite'", name="llvmlite")

    monkeypatch.setattr(targets, "from_options", without_llvm)
    assert worker.prepare() is compile_program
    with pytest.raises(ModuleNotFoundError):
        compile_program(b"func.func @main() { return }", "mlir", b"", {"target": "host"})
