"""Functions of the process that a program comes from, and that take part in its partitioning.

XLA's partitioner asks a *custom call partitioner*, found by the call's target, how the call's results are sharded and
which program each device runs for it. JAX's ``custom_partitioning`` is one; its ``inspect_array_sharding`` is one that
only looks. They are functions of the user's process, while the partitioner runs in this one. So it gets stand-ins
here, which send a question to that process (``core/schema/messages.py`` has the list) and wait for its answer.

XLA ends the process if a partitioner fails to say how a result is sharded. The stand-ins never fail there: the first
error is kept, no more is asked, and :func:`.partition.partition` raises it in the end.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from tripont.core.schema.messages import PartitioningQuestion as Question

from ..importer import bindings
from ..importer.program import read_mlir
from ..ir.errors import CompileError, internal

# The target of custom calls that look at the sharding of their operand. XLA has its partitioner, which calls the
# address in a call's backend_config: it may see no call whose bytes come from a program (see _with_inspectors).
INSPECT: Final = "InspectSharding"

# A character of a name by its number, in MLIR's text and in attributes of bytecode that are kept as text.
_ESCAPED: Final = re.compile(rb"\\[0-9A-Fa-f]{2}")

# Name of the partitioner, question, its parts -> the parts of the answer. Raises CompileError.
Ask = Callable[[str, Question, Sequence[bytes]], list[bytes]]


@dataclass(slots=True)
class Process:
    """The process that a program comes from.

    ``names``: the partitioners that the program may use, and whether their custom calls may be replicated although
    they have side effects. ``error``: the first that a question brought. ``asked``: whether there was a question.
    """

    names: Mapping[str, bool]
    ask: Ask
    error: CompileError | None = None
    asked: bool = False
    inspectors: list[object] = field(default_factory=list)

    def answer(self, name: str, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        """Raises CompileError, without asking once there was an error."""
        if self.error is not None:
            raise self.error
        self.asked = True
        try:
            return self.ask(name, question, parts)
        except CompileError as error:
            self.error = error
            raise


# That of the program which is being compiled; None if nobody can be asked.
_process: Process | None = None


@contextmanager
def of_process(names: Mapping[str, bool], ask: Ask) -> Iterator[None]:
    """Partitioners of another process take part in what is compiled inside."""
    global _process
    _process = Process(names, ask)
    try:
        yield
    finally:
        _process = None


def process() -> Process | None:
    """The process that takes part in the partitioning of the program which is being compiled."""
    return _process


def with_plain_names(program: bytes) -> bytes:
    """The StableHLO program with each name as itself in its bytes, so that a search of the bytes finds it."""
    if not _ESCAPED.search(program):
        return program
    return _bytecode(read_mlir(program, "mlir", bindings.context()))


def take_part(process: Process, program: bytes) -> bytes:
    """Register the stand-ins of ``process``, and have them in the place of the addresses in ``program``.

    ``program``: StableHLO with plain names.
    """
    for name, may_be_replicated in process.names.items():
        if name != INSPECT:
            _register(name, may_be_replicated)
    if INSPECT.encode() not in program:
        return program
    return _with_inspectors(process, program)


_registered: set[str] = set()


def _register(name: str, may_be_replicated: bool) -> None:
    """XLA keeps the first partitioner of a name, for the life of this process."""
    from jaxlib import xla_client

    if name not in _registered:
        _registered.add(name)
        stand_in = _StandIn(name)
        xla_client.register_custom_call_partitioner(
            name,
            stand_in.propagate_user_sharding,
            stand_in.partition,
            stand_in.infer_sharding_from_operands,
            can_side_effecting_have_replicated_sharding=may_be_replicated,
        )


class _StandIn:
    """A partitioner for XLA. Shapes, shardings and results are jaxlib's objects."""

    def __init__(self, name: str) -> None:
        self.name = name

    def _ask(self, question: Question, parts: Sequence[bytes]) -> list[bytes]:
        if _process is None:
            raise internal(f"nobody can be asked how to partition {self.name}")
        return _process.answer(self.name, question, parts)

    def propagate_user_sharding(self, sharding: Any, shape: Any, config: bytes) -> Any:
        parts = [config, shape.to_serialized_proto(), _sharding_bytes(sharding)]
        try:
            return _read_sharding(self._ask(Question.PROPAGATE, parts)[0])
        except CompileError:
            return sharding

    def infer_sharding_from_operands(
        self, shapes: Sequence[Any], shardings: Sequence[Any], result: Any, config: bytes
    ) -> Any:
        parts = [config, result.to_serialized_proto(), *_operands(shapes, shardings)]
        try:
            (sharding,) = self._ask(Question.INFER, parts)
        except CompileError:
            return None
        return _read_sharding(sharding[1:]) if sharding else None

    def partition(
        self,
        shapes: Sequence[Any],
        shardings: Sequence[Any],
        result: Any,
        result_sharding: Any,
        config: bytes,
    ) -> tuple[bytes, list[Any], Any]:
        parts = [config, result.to_serialized_proto(), _optional(result_sharding)]
        parts += _operands(shapes, shardings)
        module, given, *operands = self._ask(Question.PARTITION, parts)
        return module, [_read_sharding(o) for o in operands], _read_sharding(given)


def _operands(shapes: Sequence[Any], shardings: Sequence[Any]) -> list[bytes]:
    parts = []
    for shape, sharding in zip(shapes, shardings, strict=True):
        parts += [shape.to_serialized_proto(), _optional(sharding)]
    return parts


def _sharding_bytes(sharding: Any) -> bytes:
    return bytes(sharding.to_proto().SerializeToString())


def _optional(sharding: Any) -> bytes:
    """Empty for None. A sharding starts with a byte 1, because a replicated sharding is itself empty as a proto."""
    return b"" if sharding is None else b"\1" + _sharding_bytes(sharding)


def _read_sharding(data: bytes) -> Any:
    from jaxlib import xla_client

    proto = xla_client.OpSharding()
    proto.ParseFromString(data)
    return xla_client.HloSharding.from_proto(proto)


def _with_inspectors(process: Process, program: bytes) -> bytes:
    """The program with functions of this process in the place of those that are to see shardings.

    The program's own bytes never reach XLA, whichever dialect and attribute they stand in.
    """
    from jaxlib import xla_client

    ir = bindings.ir
    key = "backend_config"

    def text_of(attribute: Any) -> bytes:
        return bytes(attribute.value_bytes) if isinstance(attribute, ir.StringAttr) else b""

    def visit(operation: Any) -> Any:
        given = operation.attributes
        if "call_target_name" in given and text_of(given["call_target_name"]) == INSPECT.encode():
            inspector = _inspector(process, text_of(given[key]) if key in given else b"")
            process.inspectors.append(inspector)  # XLA will have its address
            address = xla_client.encode_inspect_sharding_callback(inspector)
            if f"mhlo.{key}" in given:  # XLA's other name of the attribute
                del given[f"mhlo.{key}"]
            given[key] = ir.StringAttr.get(address, operation.context)
        return ir.WalkResult.ADVANCE

    module = read_mlir(program, "mlir", bindings.context())
    module.operation.walk(visit)
    return _bytecode(module)


def _bytecode(module: Any) -> bytes:
    written = io.BytesIO()
    module.operation.write_bytecode(written)
    return written.getvalue()


def _inspector(process: Process, config: bytes) -> Callable[[Any], None]:
    def inspect(sharding: Any) -> None:
        process.answer(INSPECT, Question.INSPECT, [config, _sharding_bytes(sharding)])

    return inspect
