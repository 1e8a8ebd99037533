"""The compile worker's answer to one request. (The protocol's other side is tested in tests/core/runtime.)"""

from __future__ import annotations

import struct

import pytest
from tripont.core.compiler import worker
from tripont.core.compiler.errors import STATUS_CODES, CompileError


def request(program: bytes, options: dict[str, str]) -> bytearray:
    def bytes32(data: bytes) -> bytes:
        return struct.pack("<I", len(data)) + data

    def bytes64(data: bytes) -> bytes:
        return struct.pack("<Q", len(data)) + data

    parts = [bytes32(b"mlir"), bytes64(program), bytes64(b"proto"), struct.pack("<I", len(options))]
    parts += [bytes32(text.encode()) for item in options.items() for text in item]
    parts += [struct.pack("<I", 1), bytes32(b"a partitioner"), struct.pack("<I", 1)]
    return bytearray(b"".join(parts))


def test_the_compiler_has_the_only_copy_of_the_program():
    payload = request(b"program", {"target": "host", "cpu": ""})
    seen = []

    def compile_program(program, format_, options_proto, options):
        seen.append((program, format_, options_proto, options, len(payload)))
        return b"artifact"

    assert worker.handle(payload, compile_program) == (0, "", b"artifact")
    assert seen == [(b"program", "mlir", b"proto", {"target": "host", "cpu": ""}, 0)]


@pytest.mark.parametrize("end", [0, 3, 10, 20, -1])
def test_a_request_that_ends_early_is_an_error(end):
    payload = request(b"program", {"target": "host"})[:end]
    code, message, artifact = worker.handle(payload, lambda *_: b"never")
    assert code == STATUS_CODES["INTERNAL"]
    assert "message ends early" in message or "unpack" in message
    assert artifact == b""


def test_an_error_for_the_user_keeps_its_code():
    def compile_program(*_):
        raise CompileError("UNIMPLEMENTED", "not this")

    code, message, _ = worker.handle(request(b"", {}), compile_program)
    assert (code, message) == (STATUS_CODES["UNIMPLEMENTED"], "not this")
