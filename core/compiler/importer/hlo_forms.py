"""What the bytes of HloModuleProtos say, of which programs have few different ones: shapes, metadata, literals, and the
forms of instructions.

What was read is kept for the next program, up to a size. Everything here is a function of the bytes alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..formats.hlo_proto import TUPLE_TYPE, Field
from ..formats.wire_format import BYTES, VARINT, each, read_varint, unpacked_numbers, values, varint
from ..ir import dtypes
from ..ir.hlo import AnyShape, Metadata, Shape, TupleShape
from ..ir.registry import HLO_READERS
from . import places
from .hlo_literals import Array, literal

# Of HloInstructionProto, those of all instructions; those that must be empty.
_OF_INSTRUCTION: Final = frozenset(
    (
        *(Field.NAME, Field.OPCODE, Field.SHAPE, Field.METADATA, Field.ID, Field.OPERAND_IDS),
        *(Field.BACKEND_CONFIG, Field.FRONTEND_ATTRIBUTES, Field.STATISTICS),
    )
)
_REPEATED: Final = frozenset(
    (
        *(
            Field.OPERAND_IDS,
            Field.CALLED_COMPUTATION_IDS,
            Field.DIMENSIONS,
            Field.SLICE_DIMENSIONS,
        ),
        *(Field.DYNAMIC_SLICE_SIZES, Field.GATHER_SLICE_SIZES, Field.FFT_LENGTH),
    )
)
# Of ShapeProto and LayoutProto: the minor-to-major order, the bits of an element, and how the end is padded.
_OF_SHAPE: Final = frozenset((2, 3, 4, 5, 6))
_OF_LAYOUT: Final = frozenset((1, 7, 16))
# Of OpMetadata: type, name, file, line, and further numbers of the place.
_OF_METADATA: Final = frozenset((1, 2, 3, 4, 17, 18, 19))

# Numbers of element types from here on are ours (core/schema/element_types.py).
_OURS: Final = 200
# Bytes of a literal that is kept, for others like it.
_SMALL: Final = 64
# The most bytes of an array: far above every machine's memory.
_LARGEST: Final = 1 << 60
# The fields of an instruction that are its own. Writers put the name first, and operands behind the number.
OWN: Final = frozenset((Field.NAME, Field.ID, Field.OPERAND_IDS))
_NAME_KEY: Final = Field.NAME << 3 | BYTES
_ID_KEY: Final = varint(Field.ID << 3 | VARINT)
_OPERAND_IDS_KEY: Final = varint(Field.OPERAND_IDS << 3 | BYTES)


_VIEWS: Final = frozenset((b"constant", b"broadcast", b"reshape"))
_PARAMETER_FIELDS: Final = frozenset((Field.PARAMETER_NUMBER, Field.PARAMETER_REPLICATION))


# Bytes of a form that is kept: those of large constants are longer.
_LONGEST: Final = 1024
# Bytes, roughly, of what is kept for the next program.
LIMIT: Final = 8 << 20
# The same of an entry but for the bytes that it was read from.
_ENTRY: Final = 512

Cached = TypeVar("Cached")


class Form:
    """What instructions have in common that differ in name, number and operands at most.

    ``name`` is the opcode's, of which ``reader`` reads instructions that do not stand in HLO as they stand here;
    ``view``: see :meth:`Forms.view`. Raises ValueError for a field with a meaning that is not known.
    """

    __slots__ = ("fields", "metadata", "name", "opcode", "reader", "shape", "view")

    def __init__(self, forms: Forms, fields: dict[int, Any]) -> None:
        self.fields = fields
        self.opcode: bytes = fields[Field.OPCODE]
        self.name = self.opcode.decode()
        self.shape = forms.shape(fields[Field.SHAPE])
        self.metadata = forms.metadata(fields.get(Field.METADATA, b""))
        self.reader = HLO_READERS.get(self.name)
        self.view = -1
        known: frozenset[int] = frozenset()
        if self.opcode == b"parameter":
            known = _PARAMETER_FIELDS
        elif self.reader is not None:
            known = self.reader.fields
        _check_fields(fields, known)
        if self.opcode in _VIEWS:
            self.view = forms.view(self.opcode, self.shape, fields)


class Forms:
    """Reads bytes, equal ones once. Raises ValueError, LookupError or UnicodeDecodeError for those that are damaged, or
    that only jaxlib understands.
    """

    def __init__(self) -> None:
        self.size = 0  # of everything that is kept
        self._shapes: dict[bytes, AnyShape] = {}
        self._metadata: dict[bytes, Metadata] = {}
        self._forms: dict[tuple[bytes, bytes], Form] = {}
        self._views: dict[Any, int] = {}
        self._literals: dict[tuple[bytes, AnyShape], Array] = {}
        self._cached: dict[tuple[Any, bytes], Any] = {}

    def shape(self, data: bytes) -> AnyShape:
        """The shape that a ShapeProto says, whose layout has no meaning for a program."""
        shape = self._shapes.get(data)
        if shape is None:
            shape = self._shapes[data] = self._read_shape(data)
            self.size += _ENTRY + len(data)
        return shape

    def _read_shape(self, data: bytes, in_tuple: bool = False) -> AnyShape:
        given = values(data, repeated=frozenset((3, 4, 6)))
        if not given.keys() <= _OF_SHAPE or any(unpacked_numbers(given.get(6, b""))):
            raise ValueError("a shape that is not that of a static array")
        if given[2] == TUPLE_TYPE:
            if in_tuple:
                raise ValueError("a tuple in a tuple")
            elements = (self._read_shape(e, in_tuple=True) for e in each(given.get(4, [])))
            return TupleShape(tuple(elements))  # type: ignore[arg-type]
        dtype = dtypes.from_code(given[2])
        dims = tuple(unpacked_numbers(given.get(3, b"")))
        shape = Shape(dtype, dims)
        if any(d < 0 for d in dims) or shape.bytes > _LARGEST or given[2] >= _OURS:
            raise ValueError("a shape that HLO does not have")
        layout = given.get(5, b"")
        if layout and not values(layout, repeated=frozenset((1,))).keys() <= _OF_LAYOUT:
            raise ValueError("a layout with tiles or memory spaces")
        return shape

    def instruction(self, data: bytes) -> tuple[Form, bytes, int, bytes, Any]:
        """An instruction's form, name, number, the bytes that say the number, and :func:`.values` of its operands'
        numbers.

        A program of thousands of instructions has a hundred forms, and reading fields is most of the work of reading
        a program. So the bytes around name, number and operands are looked up before anything is read.
        """
        if data[0] == _NAME_KEY and data[1] < 128:
            start = 2 + data[1]
            end = data.find(_ID_KEY, start)
            if end >= 0:
                first = end + len(_ID_KEY)
                number, rest = read_varint(data, first)
                own = data[first:rest]
                operands = b""
                if data.startswith(_OPERAND_IDS_KEY, rest):
                    size, first = read_varint(data, rest + len(_OPERAND_IDS_KEY))
                    rest = first + size
                    operands = data[first:rest]
                key = (data[start:end], data[rest:])
                form = self._forms.get(key) or self._form_of(*key)
                if form is not None:
                    return form, data[2:start], number, own, operands
        fields = values(data, repeated=_REPEATED)
        name, number = fields.pop(Field.NAME), fields.pop(Field.ID, 0)
        operands = fields.pop(Field.OPERAND_IDS, b"")
        return Form(self, fields), name, number, varint(number), operands

    def _form_of(self, before: bytes, behind: bytes) -> Form | None:
        """The form of an instruction with these bytes before its number and behind its operands; None if a field began
        before them or goes on behind them, or if fields stand in another order.
        """
        try:
            first, last = (values(part, repeated=_REPEATED) for part in (before, behind))
        except ValueError:
            return None
        fields = first | last
        if len(fields) < len(first) + len(last) or not OWN.isdisjoint(fields):
            return None
        form = Form(self, fields)
        size = len(before) + len(behind)
        if size <= _LONGEST:
            self._forms[(before, behind)] = form
            self.size += _ENTRY + 2 * size
        return form

    def view(self, opcode: bytes, shape: AnyShape, fields: dict[int, Any]) -> int:
        """A number that forms have in common whose instructions on one operand are equal."""
        key = (opcode, shape, fields.get(Field.DIMENSIONS), fields.get(Field.LITERAL))
        return self._views.setdefault(key, len(self._views))

    def metadata(self, data: bytes) -> Metadata:
        """What an OpMetadata says."""
        metadata = self._metadata.get(data)
        if metadata is None:
            metadata = self._metadata[data] = _read_metadata(data)
            self.size += _ENTRY + len(data)
        return metadata

    def literal(self, data: bytes, shape: AnyShape) -> Array:
        """A constant of ``shape``: see :func:`.hlo_literals.literal`. Programs have few different small ones."""
        if len(data) > _SMALL:
            return literal(data, shape, self.shape)
        found = self._literals.get((data, shape))
        if found is None:
            found = self._literals[(data, shape)] = literal(data, shape, self.shape)
            self.size += _ENTRY + len(data)
        return found

    def cached(self, read: Callable[[bytes], Cached], data: bytes) -> Cached:
        """``read(data)``, computed once."""
        key = (read, data)
        value = self._cached.get(key)
        if value is None:
            value = self._cached[key] = read(data)
            self.size += _ENTRY + len(data)
        return value


_kept = Forms()


def kept() -> Forms:
    """The forms that programs so far had, if they are not large."""
    global _kept
    if _kept.size > LIMIT:
        _kept = Forms()
    return _kept


def clear() -> None:
    """Forget everything."""
    global _kept
    _kept = Forms()


def _read_metadata(data: bytes) -> Metadata:
    given = values(data)
    if not given.keys() <= _OF_METADATA:
        raise ValueError("metadata that are elsewhere")
    file = given.get(3, b"").decode()
    return Metadata(given.get(2, b"").decode(), *places.of_line(file, given.get(4, 0)))


def _check_fields(fields: dict[int, Any], known: frozenset[int]) -> None:
    """Raise ValueError for a field with a meaning that is not known. An empty message means nothing."""
    if not _OF_INSTRUCTION.issuperset(fields):
        for number in fields.keys() - _OF_INSTRUCTION - known:
            if fields[number] != b"":
                raise ValueError(f"the field {number} of {fields[Field.OPCODE]!r}")
    get = fields.get
    configured = get(Field.BACKEND_CONFIG) and Field.BACKEND_CONFIG not in known
    if configured or get(Field.FRONTEND_ATTRIBUTES) or get(Field.STATISTICS):
        raise ValueError(f"attributes of {fields[Field.OPCODE]!r}")
