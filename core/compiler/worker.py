"""The compile worker: a helper process that the runtime starts, keeps warm and asks to compile programs.

``main([FD, STDERR_FD])`` talks over the stream socket ``FD`` and ends when that is
closed, even in the middle of a compile. Descriptor 2 is a file in which the runtime looks for the reason if the
worker cannot start; once the worker is ready it moves descriptors 1 and 2 to ``STDERR_FD``, the user's stderr.

``core/schema/messages.py`` defines what is said, ``core/runtime/compile_worker.cc`` is the other side.
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
from typing import Any, Final

from tripont.core.schema import messages
from tripont.core.schema.codec import Codec
from tripont.core.schema.messages import (
    Accepted,
    Answer,
    Hello,
    Question,
    Request,
    Response,
    Wanted,
)

from tripont.version import __version__ as version

from .ir import verifier
from .ir.errors import STATUS_CODES, CompileError
from .targets import code_cache
from .targets.code_store import CodeStore
from .xla import partitioners

# Bytes of a message that is not copied, and after which memory is given back at once.
LARGE: Final = 1 << 20
# New objects after which the garbage collector looks at them: a compile makes many that live until it ends.
NEW_OBJECTS: Final = 50_000
# Seconds that a thread waits at most for another to give it Python's lock. The usual 5 ms are as long as LLVM takes for
# a kernel, between which its thread (targets/beside.py) needs the lock for a moment.
SWITCH_INTERVAL: Final = 2e-4

CODE_NAMES: Final = {number: name for name, number in STATUS_CODES.items()}

CompileFunction = Callable[[bytes, str, bytes, dict[str, str]], bytes]

CODEC: Final = Codec(messages)
FRAME: Final = struct.Struct("<IQ")  # a message's number, the size of its fields


def describe(error: BaseException) -> tuple[int, str]:
    """Status code and message of what a compile raised.

    An error that carries a ``code`` (the name of a status code) was written for the user. Missing memory and missing
    packages are the machine's; anything else is a bug in the compiler, reported with its type and the line that
    raised it.
    """
    code = STATUS_CODES.get(str(getattr(error, "code", "")))
    if code is not None:
        return code, str(error)
    if isinstance(error, MemoryError):
        return STATUS_CODES["RESOURCE_EXHAUSTED"], "the compiler ran out of memory"
    if isinstance(error, ModuleNotFoundError) and error.name:
        package = error.name.partition(".")[0]
        if package != "tripont":
            return STATUS_CODES["FAILED_PRECONDITION"], (
                f"the compiler needs the package {package}, which {sys.executable} does not have: "
                f"`{sys.executable} -m pip install {package}` adds it"
            )
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({frames[-1].filename}:{frames[-1].lineno} in {frames[-1].name})" if frames else ""
    return STATUS_CODES["INTERNAL"], f"{type(error).__name__}: {error}{place}"


@functools.cache
def sources() -> str:
    """A digest of the compiler's sources as they were when this was first called, at the start."""
    from tripont.fingerprint import compiler_sources

    return compiler_sources()


@functools.lru_cache(maxsize=8)
def code_store(path: bytes, size_limit: int, is_shared: bool) -> CodeStore:
    """What keeps machine code of this compiler in a folder."""
    compiler = f"{version} {sources()} {packages()} verified={verifier.enabled()}"
    return CodeStore(os.fsdecode(path), compiler, size_limit, is_shared)


def use_code_of(folder: messages.CodeFolder) -> None:
    """Have the next compile look for machine code in ``folder``, and keep there what is new."""
    given = folder.path, folder.size_limit, folder.is_shared
    code_cache.use(code_store(*given) if folder.path else None)


def no_one_to_ask(name: str, question: int, parts: Sequence[bytes]) -> list[bytes]:
    raise CompileError("INTERNAL", f"nobody can be asked how to partition {name}")


def handle(
    payload: bytearray, compile_program: CompileFunction, ask: partitioners.Ask = no_one_to_ask
) -> Response:
    """The response to one request, whose fields are ``payload``. It is empty afterwards: constants make it large, and
    the compiler needs the memory. ``ask``: what asks the other side a question.
    """
    try:
        request = Request(**CODEC.read(Request, payload))
        payload.clear()
        names = {p.name: p.may_be_replicated for p in request.partitioners}
        use_code_of(request.code)
        hits, misses = code_cache.hits(), code_cache.misses()
        program, request.program = request.program, b""
        with partitioners.of_process(names, ask):
            artifact = compile_program(
                program, request.format, request.compile_options, request.options
            )
        reused = code_cache.hits() > hits and code_cache.misses() == misses
        return Response(0, reused=reused, artifact=artifact)
    except Exception as error:
        code, message = describe(error)
        if code == STATUS_CODES["INTERNAL"] and os.environ.get("TRIPONT_LOG_LEVEL", "1") >= "2":
            traceback.print_exc()
        return Response(code, message.encode(errors="replace"))


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


def send(connection: socket.socket, message: Any) -> int:
    """Send a message of core/schema/messages.py; the size of its fields."""
    parts = CODEC.parts(message)
    size = sum(map(len, parts))
    head = FRAME.pack(message.NUMBER, size)
    if size > LARGE:  # no copy of its large parts
        for part in (head, *parts):
            connection.sendall(part)
    else:
        connection.sendall(head + b"".join(parts))
    return size


def receive_fields(connection: socket.socket, expected: type) -> bytearray | None:
    """The fields of a message of type ``expected``; None if the other side is gone, or says something else."""
    head = receive(connection, FRAME.size)
    number, size = FRAME.unpack(head) if head is not None else (0, 0)
    if head is not None and number != getattr(expected, "NUMBER"):  # noqa: B009
        print("tripont: compile worker: a message of another kind than expected", file=sys.stderr)
        return None
    return receive(connection, size) if head is not None else None


def ask(
    connection: socket.socket,
    name: str,
    question: messages.PartitioningQuestion,
    parts: Sequence[bytes],
) -> list[bytes]:
    """The other side's answer to a question. CompileError: that of the function which it called, or INTERNAL."""
    send(connection, Question(name, question, tuple(parts)))
    fields = receive_fields(connection, Answer)
    if fields is None:
        raise CompileError("INTERNAL", f"a question about {name} was not answered")
    answer = Answer(**CODEC.read(Answer, fields))
    if answer.code:
        raise CompileError(
            CODE_NAMES.get(answer.code, "UNKNOWN"), answer.message.decode(errors="replace")
        )
    return list(answer.parts)


def serve(connection: socket.socket, compile_program: CompileFunction) -> None:
    """Answer requests until the other side closes the connection or sends something else."""
    while (payload := receive_fields(connection, Request)) is not None:
        size = len(payload)
        send(connection, Accepted())
        response = handle(payload, compile_program, functools.partial(ask, connection))
        size = max(size, send(connection, response))
        del response
        code_cache.flush()  # nobody waits for it
        if size > LARGE:  # its modules are cycles of large objects
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


def prepare() -> CompileFunction:
    """What compiles, with the heavy imports (LLVM, the MLIR bindings, the ops) done, so that no program waits for them.

    Packages that cannot be imported, here or beside the compiler, are an error of the first program.
    """
    from . import targets
    from .compile import compile_program
    from .importer import warm_up

    with contextlib.suppress(CompileError, ImportError):
        warm_up()
        targets.from_options({})
    return compile_program


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
    sources()
    from .importer.reading_limit import enable as enable_reading_limit

    compile_program = prepare()
    enable_reading_limit()
    gc.freeze()  # what was imported stays: no collection needs to look at it
    gc.set_threshold(NEW_OBJECTS)
    gc.enable()  # the runtime starts this process without
    sys.setswitchinterval(SWITCH_INTERVAL)
    move_output(stderr_fd)
    send(connection, Hello(messages.PROTOCOL_VERSION, version, sources(), packages()))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        if receive_fields(connection, Wanted) is not None:
            serve(connection, compile_program)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # no teardown: there is nothing to save, and LLVM's takes time


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
