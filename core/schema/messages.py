"""What the runtime and a compile worker say to each other over a stream socket.

A message is the u32 ``NUMBER`` of its record, the u64 size of its fields, and its fields (``records.py``). The runtime
says ``Wanted`` when it first has a program for a worker, and the worker ``Hello`` when it is ready: after ``Wanted``,
or before it if nobody wants it for a while. Then each ``Request`` is answered in turn: by ``Accepted`` when it has been
read, and by ``Response`` when it is done. A worker that ends before it has accepted a request cannot have died of that
request, and the runtime asks another worker. Between the two answers the worker may ask any number of ``Question``,
each of which gets an ``Answer`` before the worker goes on.

The worker's side is ``core/compiler/worker.py``, the runtime's ``core/runtime/compile_worker.cc``.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar, Final

from .layouts import version
from .records import U32, U64, Large

PROTOCOL_VERSION: Final = version("messages")


@dataclass(slots=True)
class Wanted:
    """A program waits for this worker. A worker that was started early may have put off its imports until now."""

    NUMBER: ClassVar = 0x41575054  # the letters TPWA


@dataclass(slots=True)
class Hello:
    """The worker is ready. A runtime of another protocol or version of tripont does not use it.

    ``sources``: a digest of the compiler's sources. ``packages``: what the compiler is built on, such as
    "llvmlite-0.45.1 jaxlib-0.8.0". A runtime that knows other ones does not keep the worker's programs.
    """

    NUMBER: ClassVar = 0x49485054  # TPHI

    protocol_version: U32
    version: str
    sources: str
    packages: str


@dataclass(slots=True)
class PartitionerName:
    """A partitioner that the program may use: the target of its custom calls.

    ``may_be_replicated``: whether such calls may be replicated although they have side effects.
    """

    name: str
    may_be_replicated: bool


@dataclass(slots=True)
class CodeFolder:
    """Where machine code is kept for other processes, at most ``size_limit`` bytes of it; nowhere if ``path`` is empty.

    ``is_shared``: whether the user trusts whoever may write there.
    """

    path: bytes
    size_limit: U64
    is_shared: bool


@dataclass(slots=True)
class Request:
    """Compile ``program``. ``format``: "mlir", "hlo" or "artifact". ``compile_options``: a CompileOptionsProto."""

    NUMBER: ClassVar = 0x51525054  # TPRQ

    format: str
    program: Large
    compile_options: Large
    options: dict[str, str]
    partitioners: tuple[PartitionerName, ...]
    code: CodeFolder


@dataclass(slots=True)
class Accepted:
    """The worker has read the request."""

    NUMBER: ClassVar = 0x41525054  # TPRA


class PartitioningQuestion(enum.IntEnum):
    """What is asked of a partitioner: the parts of the question -> the parts of the answer.

    Shapes are serialized ShapeProtos, shardings OpShardings, ``config`` is the custom call's backend_config. A sharding
    with a question mark is empty where there is no sharding, else a byte and the sharding.

    PROPAGATE: config, the result's shape, the sharding that its user has -> the result's sharding.
    PARTITION: config, the result's shape, its sharding?, then shape and sharding? of each operand -> the program of one
    device (MLIR), the result's sharding, the shardings of the operands.
    INFER: config, the result's shape, then shape and sharding? of each operand -> the result's sharding?.
    INSPECT: config, the operand's sharding -> nothing.
    """

    PROPAGATE = 0
    PARTITION = 1
    INFER = 2
    INSPECT = 3


@dataclass(slots=True)
class Question:
    """The worker asks the partitioner ``partitioner`` (``core/runtime/partitioners.h``) a question."""

    NUMBER: ClassVar = 0x55515054  # TPQU

    partitioner: str
    question: PartitioningQuestion
    parts: tuple[Large, ...]


@dataclass(slots=True)
class Answer:
    """The parts of the answer, or why there is no answer: ``code`` is a status code, ``message`` UTF-8."""

    NUMBER: ClassVar = 0x4E415054  # TPAN

    code: U32
    message: bytes
    parts: tuple[Large, ...] = ()


@dataclass(slots=True)
class Response:
    """The artifact, or why there is none: ``code`` is a status code, ``message`` UTF-8.

    ``reused``: whether the worker had the machine code already, or found it on disk.
    """

    NUMBER: ClassVar = 0x53525054  # TPRS

    code: U32
    message: bytes = b""
    reused: bool = False
    artifact: Large = b""
