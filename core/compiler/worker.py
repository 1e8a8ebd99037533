"""The compile worker: a helper process that the runtime starts, keeps warm and asks to compile programs.

``main([FD, STDERR_FD])`` talks over the stream socket ``FD`` and ends when that is
closed, even in the middle of a compile. Descriptor 2 is a file in which the runtime looks for the reason if the
worker cannot start; once the worker is ready it moves descriptors 1 and 2 to ``STDERR_FD``, the user's stderr.

Protocol. All numbers are little-endian; ``bytes32`` is u32 size + bytes, ``bytes64`` is u64 size + bytes. First the
worker says that it is ready; then each request is answered in turn: when it has been read, and when it is done. A
worker that ends before it has read one cannot have died of it, and the runtime asks another.

    hello       u32 0x49485054 ("TPHI"), u32 PROTOCOL_VERSION, bytes32 identity: three lines with the version of
                tripont, the digest of the compiler's sources, and the packages that it is built on
    request     u32 0x51525054 ("TPRQ"), u64 size of the rest, then
                bytes32 format, bytes64 program, bytes64 CompileOptionsProto,
                u32 count of options, each bytes32 key, bytes32 value,
                u32 count of partitioners that the program may use, each bytes32 name,
                u32 whether its custom calls may be replicated although they have side effects
    accepted    u32 0x41525054 ("TPRA")
    question    u32 0x55515054 ("TPQU"), u64 size of the rest, then
                bytes32 name of a partitioner, u32 what is asked of it, u32 count of parts, each bytes64
    answer      u32 0x4E415054 ("TPAN"), u64 size of the rest, then
                u32 status code, bytes32 message, u32 count of parts, each bytes64
    response    u32 0x53525054 ("TPRS"), u32 status code (0 is OK, else absl's numbers),
                bytes32 message, bytes64 artifact
                message, if the code is OK: "reused" if the machine code was there already, else empty

Between accepted and response the worker may ask any number of questions, each answered before it goes on: what is
asked of partitioners, and what they answer, is in ``core/runtime/partitioners.h``.

The other side is ``core/runtime/compile_worker.cc``.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import select
import signal
import socket
import struct
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Final

from tripont.core.schema.messages import PROTOCOL_VERSION, REUSED, Message

from tripont.version import __version__ as version

from .ir.errors import STATUS_CODES, CompileError
from .targets import code_cache
from .xla import partitioners

LARGE: Final = 1 << 20  # bytes of a request after which the worker gives memory back at once

CODE_NAMES: Final = {number: name for name, number in STATUS_CODES.items()}

CompileFunction = Callable[[bytes, str, bytes, dict[str, str]], bytes]


class Fields:
    """Reads the fields of a request or an answer; struct.error or ValueError if it is malformed."""

    def __init__(self, data: bytes | bytearray) -> None:
        self.data = data
        self.position = 0

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self.data, self.position)
        self.position += struct.calcsize(layout)
        return int(value)

    def _take(self, size: int) -> bytes:
        if self.position + size > len(self.data):
            raise ValueError("the message ends early")
        with memoryview(self.data) as view:
            data = bytes(view[self.position : self.position + size])
        self.position += size
        return data

    def bytes32(self) -> bytes:
        return self._take(self.number("<I"))

    def bytes64(self) -> bytes:
        return self._take(self.number("<Q"))


def describe(error: BaseException) -> tuple[int, str]:
    """Status code and message of what a compile raised.

    An error that carries a ``code`` (the name of a status code) was written for the user; anything else is a bug in the
    compiler, reported with its type and the line that raised it.
    """
    code = STATUS_CODES.get(str(getattr(error, "code", "")))
    if code is not None:
        return code, str(error)
    if isinstance(error, MemoryError):
        return STATUS_CODES["RESOURCE_EXHAUSTED"], "the compiler ran out of memory"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    return STATUS_CODES["INTERNAL"], f"{type(error).__name__}: {error}{place}"


def no_one_to_ask(name: str, question: int, parts: Sequence[bytes]) -> list[bytes]:
    raise CompileError("INTERNAL", f"nobody can be asked how to partition {name}")


def handle(
    payload: bytearray, compile_program: CompileFunction, ask: partitioners.Ask = no_one_to_ask
) -> tuple[int, str, bytes]:
    """Status code, message and artifact for one request. ``payload`` is empty afterwards: constants make it large, and
    the compiler needs the memory. ``ask``: what asks the other side a question.
    """
    try:
        fields = Fields(payload)
        format_ = fields.bytes32().decode()
        program = fields.bytes64()
        options_proto = fields.bytes64()
        options: dict[str, str] = {}
        for _ in range(fields.number("<I")):
            key = fields.bytes32().decode()
            options[key] = fields.bytes32().decode()
        names = {}
        for _ in range(fields.number("<I")):
            name = fields.bytes32().decode()
            names[name] = bool(fields.number("<I"))
        payload.clear()
        before = code_cache.hits()
        with partitioners.of_process(names, ask):
            artifact = compile_program(program, format_, options_proto, options)
        return 0, REUSED if code_cache.hits() > before else "", artifact
    except Exception as error:
        code, message = describe(error)
        if code == STATUS_CODES["INTERNAL"] and os.environ.get("TRIPONT_LOG_LEVEL", "1") >= "2":
            traceback.print_exc()
        return code, message, b""


def receive(connection: socket.socket, size: int) -> bytearray | None:
    """Exactly ``size`` bytes, or None if the other side is gone."""
    data = bytearray(size)
    done = 0
    with memoryview(data) as view:
        while done < size:
            count = connection.recv_into(view[done:])
            if count == 0:
                return None
            done += count
    return data


HEADER: Final = struct.Struct("<IQ")


def ask(connection: socket.socket, name: str, question: int, parts: Sequence[bytes]) -> list[bytes]:
    """The other side's answer to a question. CompileError: that of the function which it called, or INTERNAL."""
    target = name.encode()
    body = [struct.pack("<I", len(target)), target, struct.pack("<II", question, len(parts))]
    for part in parts:
        body += [struct.pack("<Q", len(part)), part]
    rest = b"".join(body)
    connection.sendall(HEADER.pack(Message.QUESTION, len(rest)) + rest)
    head = receive(connection, HEADER.size)
    magic, size = HEADER.unpack(head) if head is not None else (0, 0)
    answer = receive(connection, size) if magic == Message.ANSWER else None
    if answer is None:
        raise CompileError("INTERNAL", f"a question about {name} was not answered")
    fields = Fields(answer)
    code, message = fields.number("<I"), fields.bytes32().decode(errors="replace")
    if code:
        raise CompileError(CODE_NAMES.get(code, "UNKNOWN"), message)
    return [fields.bytes64() for _ in range(fields.number("<I"))]


def serve(connection: socket.socket, compile_program: CompileFunction) -> None:
    """Answer requests until the other side closes the connection or sends something else."""
    while (head := receive(connection, HEADER.size)) is not None:
        magic, size = HEADER.unpack(head)
        if magic != Message.REQUEST:
            print("tripont: compile worker: not a request; ending", file=sys.stderr)
            return
        payload = receive(connection, size)
        if payload is None:
            return
        connection.sendall(struct.pack("<I", Message.ACCEPTED))
        code, message, artifact = handle(
            payload, compile_program, functools.partial(ask, connection)
        )
        text = message.encode(errors="replace")
        connection.sendall(
            struct.pack("<III", Message.RESPONSE, code, len(text))
            + text
            + struct.pack("<Q", len(artifact))
        )
        connection.sendall(artifact)
        if size > LARGE or len(artifact) > LARGE:  # its modules are cycles of large objects
            del artifact
            gc.collect()


def end_with_connection(connection: socket.socket) -> None:
    """End this process, whatever it is doing, as soon as the other side closes the connection."""

    def watch() -> None:
        poller = select.poll()
        poller.register(connection.fileno(), select.POLLRDHUP | select.POLLHUP)
        while not poller.poll():
            pass
        os._exit(0)

    threading.Thread(target=watch, name="tripont-watch", daemon=True).start()


def move_output(stderr_fd: int) -> None:
    """Copy what was written to descriptor 2 so far to the user's stderr, then write there directly."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        written = os.pread(2, 1 << 20, 0)
    except OSError:
        written = b""
    if written:
        os.write(stderr_fd, written)
    os.dup2(stderr_fd, 1)
    os.dup2(stderr_fd, 2)
    os.close(stderr_fd)


def packages() -> str:
    """What the compiler is built on, with versions, as far as it is imported, and the packages whose ops it has:
    ``llvmlite-0.45.1 jaxlib-0.8.0``.
    """
    from .ir.registry import installed

    imported = [(name, sys.modules.get(name)) for name in ("llvmlite", "jaxlib")]
    versions = [f"{name}-{module.__version__}" for name, module in imported if module]
    return " ".join([*versions, *installed()])


def main(arguments: list[str]) -> int:
    connection_fd, stderr_fd = int(arguments[0]), int(arguments[1])
    # The runtime starts this process in a group of its own and with SIGINT blocked: Ctrl-C, and a notebook's stop
    # button, are for the user's program to act on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # A group that is not the terminal's foreground one is stopped when it writes there under `stty tostop`.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    # Nothing of the user's program that was inherited by accident stays open here.
    os.closerange(max(connection_fd, stderr_fd) + 1, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
    os.set_inheritable(connection_fd, False)
    os.set_inheritable(stderr_fd, False)
    connection = socket.socket(fileno=connection_fd)
    end_with_connection(connection)
    from tripont.fingerprint import compiler_sources

    sources = compiler_sources()
    # The heavy imports (LLVM, the MLIR bindings) happen here, so that the first compile finds them done.
    from .compile import compile_program
    from .importer.reading_limit import enable as enable_reading_limit

    enable_reading_limit()
    move_output(stderr_fd)
    text = "\n".join((version, sources, packages())).encode()
    connection.sendall(struct.pack("<III", Message.HELLO, PROTOCOL_VERSION, len(text)) + text)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        serve(connection, compile_program)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # no teardown: there is nothing to save, and LLVM's takes time


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
