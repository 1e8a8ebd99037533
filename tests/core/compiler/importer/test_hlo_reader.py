"""HloModuleProtos that are read directly mean what they mean on the way through jaxlib, which the others take."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.formats import wire_format
from tripont.core.compiler.formats.wire_format import integer, integers, message, text
from tripont.core.compiler.importer import hlo_forms, hlo_reader, program, read_program
from tripont.core.compiler.ir import verifier
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.hlo import Computation, Module, topological_order

from tests.conformance import device, registry

PROGRAMS = Path(__file__).parents[3] / "data" / "programs"
RECORDED = sorted(PROGRAMS.glob("*.hlo"))
# Programs with instructions that only jaxlib's conversion knows: collectives.
INDIRECT = {"tensorflow_mirrored_all_reduce"}
# Element types of which jaxlib cannot write a literal.
UNWRITTEN = ("f6E2M3FN", "f6E3M2FN")


@pytest.fixture
def through_jaxlib(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], Module]:
    def read(data: bytes) -> Module:
        with monkeypatch.context() as patch:
            patch.setattr(program.hlo_reader, "read_module", lambda data: None)
            return read_program(data, "hlo")

    return read


def plain(value: Any) -> Any:
    """An attribute that can be compared: arrays, and dictionaries of such, in other words."""
    if isinstance(value, dict):
        return {name: (type(v), plain(v)) for name, v in value.items()}
    return (value.dtype, value.tobytes()) if isinstance(value, np.ndarray) else value


def meaning(computation: Computation) -> list[Any]:
    """The instructions that the result depends on, equal ones once, without their names and places, in an order that
    is theirs.
    """
    numbers = {p: n for n, p in enumerate(computation.parameters)}
    found: list[Any] = [p.shape for p in computation.parameters]
    known: dict[str, int] = {}
    for i in topological_order([computation.root]):
        if i in numbers:
            continue
        attributes = {name: plain(value) for name, value in i.attributes.items()}
        operands = [numbers[o] for o in i.operands]
        said = (i.opcode, i.shape, operands, attributes, [meaning(c) for c in i.called])
        numbers[i] = known.setdefault(repr(said), len(known) + len(computation.parameters))
        if numbers[i] == len(found):
            found.append(said)
    return found


def assert_same(direct: Module, other: Module) -> None:
    verifier.verify(direct)
    assert meaning(direct.entry) == meaning(other.entry)
    for name in ("name", "input_output_aliases", "frontend_attributes", "parameter_layouts"):
        assert getattr(direct, name) == getattr(other, name)


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
def test_recorded_programs(path: Path, through_jaxlib: Callable[[bytes], Module]) -> None:
    data = path.read_bytes()
    direct = hlo_reader.read_module(data)
    assert (direct is None) == (path.stem in INDIRECT)
    if direct is not None:
        assert_same(direct, through_jaxlib(data))


def conformance() -> Iterator[registry.Case]:
    for case in registry.sample(registry.load(), 40):
        known = not any(name in case.program for name in UNWRITTEN)
        if known and not case.refused and not device.is_hlo_text(case.program):
            yield case


def test_programs_of_every_op(through_jaxlib: Callable[[bytes], Module]) -> None:
    direct = 0
    for case in conformance():
        try:
            data = device.as_hlo(case.program)
        except Exception:  # HLO does not have it
            continue
        module = hlo_reader.read_module(data)
        if module is not None:
            direct += 1
            assert_same(module, through_jaxlib(data))
    assert direct > 200


# ------------------------------------------------------------------------------------------- what goes through jaxlib


def shape(code: int, *dims: int, dynamic: bool = False, layout: bytes | None = None) -> bytes:
    order = integers(1, range(len(dims) - 1, -1, -1)) if layout is None else layout
    sizes = integers(3, dims)
    return integer(2, code) + sizes + message(5, order) + (integers(6, [1]) if dynamic else b"")


S32 = shape(4)
VECTOR = shape(4, 2)
PARAMETER = text(2, "parameter") + message(3, VECTOR) + integer(35, 1)
NEGATE = text(2, "negate") + message(3, VECTOR) + integer(35, 2) + integers(36, [1])


def module_of(
    *instructions: bytes, parameter: bytes = VECTOR, result: bytes = VECTOR, more: bytes = b""
) -> bytes:
    """A module of one computation, whose last instruction has the number 2."""
    named = b"".join(message(2, text(1, f"i.{n}") + i) for n, i in enumerate(instructions))
    signature = (message(1, parameter) + text(3, "p") if parameter else b"") + message(2, result)
    computation = text(1, "main") + named + message(4, signature) + integer(5, 1) + integer(6, 2)
    return (
        text(1, "m")
        + text(2, "main")
        + message(3, computation)
        + message(4, signature)
        + integer(6, 1)
        + more
    )


def test_a_module_of_two_instructions_is_read() -> None:
    module = hlo_reader.read_module(module_of(PARAMETER, NEGATE))
    assert module is not None
    assert [i.opcode for i in module.entry.instructions] == ["parameter", "negate"]


CONSTANT = text(2, "constant") + message(3, shape(4, 2, 2)) + integer(35, 2)
COLUMNS = shape(4, 2, 2, layout=integers(1, [0, 1]))

DEEP = VECTOR
for _ in range(sys.getrecursionlimit()):
    DEEP = integer(2, 13) + message(4, DEEP)

STRANGE = {
    "tuples in each other": module_of(PARAMETER.replace(VECTOR, DEEP), NEGATE),
    "opcode": module_of(PARAMETER, NEGATE.replace(b"negate", b"negato")),
    "field": module_of(PARAMETER, NEGATE + integer(99, 1)),
    "field of the module": module_of(PARAMETER, NEGATE, more=integer(77, 1)),
    "sharding": module_of(PARAMETER + message(40, integer(1, 1)), NEGATE),
    "frontend attributes": module_of(PARAMETER, NEGATE + message(68, message(1, text(1, "a")))),
    "control dependence": module_of(PARAMETER, NEGATE + integers(37, [1])),
    "operand that does not exist": module_of(PARAMETER, NEGATE + integers(36, [7])),
    "operand of later": module_of(NEGATE, PARAMETER),
    "number twice": module_of(PARAMETER, PARAMETER, NEGATE),
    "bound": module_of(PARAMETER, NEGATE, parameter=shape(4, 2, dynamic=True)),
    "huge": module_of(PARAMETER.replace(VECTOR, S32), NEGATE),
    "signature": module_of(PARAMETER, NEGATE, result=S32),
    "type of ours": module_of(PARAMETER, NEGATE, parameter=shape(200, 2), result=shape(200, 2)),
    "tuple": module_of(
        text(2, "parameter") + message(3, integer(2, 13) + message(4, VECTOR)) + integer(35, 1),
        text(2, "get-tuple-element") + message(3, VECTOR) + integer(35, 2) + integers(36, [1]),
        parameter=integer(2, 13) + message(4, VECTOR),
    ),
    "literal in columns": module_of(
        CONSTANT + message(8, message(1, COLUMNS) + integers(4, [1, 2, 3, 4])),
        parameter=b"",
        result=shape(4, 2, 2),
    ),
    "short literal": module_of(
        CONSTANT + message(8, message(1, shape(4, 2, 2)) + integers(4, [1, 2])),
        parameter=b"",
        result=shape(4, 2, 2),
    ),
    "nothing": b"",
    "end": module_of(PARAMETER, NEGATE)[:-3],
}  # fmt: skip


@pytest.mark.parametrize("data", STRANGE.values(), ids=STRANGE)
def test_what_is_not_understood_is_left_to_jaxlib(data: bytes) -> None:
    assert hlo_reader.read_module(data) is None


def test_a_result_of_another_shape_is_refused() -> None:
    wrong = module_of(PARAMETER, NEGATE.replace(VECTOR, shape(4, 3)), result=shape(4, 3))
    read = read_program(wrong, "hlo")
    with pytest.raises(CompileError, match="negate"):
        verifier.verify_program(read)


def test_programs_are_read_whatever_bytes_are_damaged() -> None:
    """No damage makes the reader raise; what it still reads, the verifier can judge."""
    data = (PROGRAMS / "torch_xla_gather.hlo").read_bytes()
    for place in range(0, len(data), 7):
        for value in (0, 1, 127, 255):
            damaged = bytearray(data)
            damaged[place] = value
            module = hlo_reader.read_module(bytes(damaged))
            if module is not None:
                with contextlib.suppress(CompileError):
                    verifier.verify_program(module)


NUMBERS = {
    "int32": (4, 4),
    "int64": (5, 5),
    "uint32": (8, 6),
    "uint64": (9, 7),
    "float32": (11, 8),
    "bool": (1, 2),
}


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("size", [3, 200])
def test_literals(name: str, size: int) -> None:
    """Numbers of one byte to ten, a few and many."""
    code, number = NUMBERS[name]
    bits = [(n * 0x9E3779B97F4A7C15) % (1 << 64) >> (n % 64) for n in range(size)]
    values = np.arange(size) % 2 == 0 if name == "bool" else np.array(bits, np.uint64).astype(name)
    if values.dtype.kind in "iu":
        payload = integers(number, (int(v) for v in values))
    else:
        payload = message(number, values.tobytes())
    made = shape(code, size)
    constant = text(2, "constant") + message(3, made) + integer(35, 2)
    data = module_of(constant + message(8, message(1, made) + payload), parameter=b"", result=made)
    module = hlo_reader.read_module(data)
    assert module is not None
    literal = module.entry.root.attributes["literal"]
    assert literal.dtype == values.dtype
    assert np.array_equal(literal, values)


def test_a_literal_of_equal_elements_is_a_broadcast() -> None:
    constant = text(2, "constant") + message(3, VECTOR) + integer(35, 2)
    payload = message(8, message(1, VECTOR) + integers(4, [300, 300]))
    module = hlo_reader.read_module(module_of(constant + payload, parameter=b""))
    assert module is not None
    assert [i.opcode for i in module.entry.instructions] == ["constant", "broadcast"]


def test_equal_views_are_read_once() -> None:
    """Constants, broadcasts and reshapes, of which PyTorch/XLA writes new ones for each use."""
    parts = []
    for n in (10, 20):
        literal = message(8, message(1, S32) + integers(4, [7]))
        parts += [
            text(2, "constant") + message(3, S32) + integer(35, n) + literal,
            text(2, "broadcast") + message(3, VECTOR) + integer(35, n + 1) + integers(36, [n]),
        ]
    added = text(2, "add") + message(3, VECTOR) + integer(35, 2) + integers(36, [11, 21])
    module = hlo_reader.read_module(module_of(*parts, added, parameter=b""))
    assert module is not None
    assert [i.opcode for i in module.entry.instructions] == ["constant", "broadcast", "add"]


# ----------------------------------------------------------------------------------------- forms of instructions


def chain(length: int) -> bytes:
    """Negations of one another, which differ in name, number and operand."""
    parts = [text(2, "parameter") + message(3, VECTOR) + integer(35, 1000)]
    for n in range(1001, 1000 + length):
        parts.append(
            text(2, "negate") + message(3, VECTOR) + integer(35, n) + integers(36, [n - 1])
        )
    last = text(2, "negate") + message(3, VECTOR) + integer(35, 2) + integers(36, [999 + length])
    return module_of(*parts, last)


def test_fields_are_read_once_for_instructions_of_one_form(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(length: int) -> int:
        count = 0

        def counted(*arguments: Any, **options: Any) -> dict[int, Any]:
            nonlocal count
            count += 1
            return wire_format.values(*arguments, **options)

        hlo_forms.clear()
        for reader in (hlo_reader, hlo_forms):
            monkeypatch.setattr(reader, "values", counted)
        module = hlo_reader.read_module(chain(length))
        assert module is not None
        assert len(module.entry.instructions) == 1 + length
        return count

    assert reads(100) == reads(10)


def test_forms_are_kept_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    hlo_forms.clear()
    kept = hlo_forms.kept()
    hlo_reader.read_module(chain(10))
    size = kept.size
    assert size > 0
    hlo_reader.read_module(chain(20))
    assert hlo_forms.kept() is kept
    assert kept.size == size
    large = shape(4, 2000)
    literal = message(8, message(1, large) + integers(4, range(2000)))
    constant = text(2, "constant") + message(3, large) + literal + integer(35, 2)
    module = hlo_reader.read_module(module_of(constant, parameter=b"", result=large))
    assert module is not None
    assert kept.size < size + 4000
    monkeypatch.setattr(hlo_forms, "LIMIT", size)
    assert hlo_forms.kept() is not kept
    assert hlo_forms.kept().size == 0


def test_a_literal_that_looks_like_a_number_of_an_instruction() -> None:
    """280 and the bytes of the field of an instruction's number are the same."""
    literal = message(8, message(1, VECTOR) + integers(4, [280, 281]))
    constant = text(2, "constant") + message(3, VECTOR) + literal + integer(35, 2)
    module = hlo_reader.read_module(module_of(constant, parameter=b""))
    assert module is not None
    assert module.entry.root.attributes["literal"].tolist() == [280, 281]


@pytest.mark.parametrize("name", ["a", "a" * 127, "a" * 128])
def test_fields_in_another_order(name: str) -> None:
    """Names behind numbers, names that are long, and operands one by one."""
    number = integer(35, 3)
    operands = integer(36, 1) + integer(36, 1)
    add = number + operands + text(2, "add") + message(3, VECTOR)
    last = text(2, "negate") + message(3, VECTOR) + integers(36, [3]) + integer(35, 2)
    instructions = (text(1, "p") + PARAMETER, add + text(1, name), last + text(1, "last"))
    named = b"".join(message(2, i) for i in instructions)
    signature = message(1, VECTOR) + message(2, VECTOR)
    computation = text(1, "main") + named + message(4, signature) + integer(5, 1) + integer(6, 2)
    data = text(1, "m") + message(3, computation) + message(4, signature) + integer(6, 1)
    module = hlo_reader.read_module(data)
    assert module is not None
    parameter, added, negated = module.entry.instructions
    assert (added.opcode, added.operands) == ("add", (parameter, parameter))
    assert negated.operands == (added,)
    assert added.metadata is not None
    assert added.metadata.op_name == name


@pytest.mark.parametrize(
    "twice", [text(1, "b"), integer(35, 2), text(2, "negate"), message(3, VECTOR)]
)
def test_a_field_that_stands_twice_is_left_to_jaxlib(twice: bytes) -> None:
    for instruction in (NEGATE + twice, twice + NEGATE):
        assert hlo_reader.read_module(module_of(PARAMETER, instruction)) is None
