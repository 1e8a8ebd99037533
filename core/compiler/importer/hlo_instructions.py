"""Readers of instructions of an HloModuleProto that are more than an opcode (:class:`..ir.registry.HloReader`).

Each gets the computation that is being read and the instruction, and gives the values of its result. It raises
ValueError for what it does not understand: the program is then converted to StableHLO by jaxlib and read from there,
or refused with jaxlib's words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from ..formats import hlo_records
from ..formats.hlo_proto import Field
from ..formats.hlo_records import Record
from ..formats.wire_format import each, float32_value, unpacked_numbers, values
from ..ir import dtypes
from ..ir.hlo import Instruction, Shape, TupleShape, WindowDimension
from ..ir.registry import HloReader
from .ops_elementwise import default_comparison_type

if TYPE_CHECKING:
    from .hlo_reader import ComputationReader, Given, Value

#: How an attribute is read from an instruction's fields, by number.
AttributeReader = Callable[["ComputationReader", dict[int, Any]], Any]


def plain(opcode: str, *numbers: int, **parts: AttributeReader) -> HloReader:
    """The reader of an instruction that is ``opcode`` on the same operands; ``parts`` read its attributes from the
    fields ``numbers``.
    """

    def read(block: ComputationReader, given: Given) -> Value:
        found = {name: part(block, given.fields) for name, part in parts.items()}
        return block.emit_results(opcode, given.shape, given.operands, found)

    return HloReader(read, frozenset(numbers))


def dimensions(block: ComputationReader, fields: dict[int, Any]) -> tuple[int, ...]:
    return numbers(Field.DIMENSIONS, fields)


def dimension(block: ComputationReader, fields: dict[int, Any]) -> int:
    """The only one of the dimensions."""
    (found,) = numbers(Field.DIMENSIONS, fields)
    return found


def numbers(field: int, fields: dict[int, Any]) -> tuple[int, ...]:
    return tuple(unpacked_numbers(fields.get(field, b"")))


def flag(field: int) -> AttributeReader:
    return lambda block, fields: bool(fields.get(field, 0))


def integer(field: int) -> AttributeReader:
    """An integer that is not negative."""
    return lambda block, fields: int(fields.get(field, 0))


def list_of(field: int) -> AttributeReader:
    return lambda block, fields: numbers(field, fields)


def word(field: int, words: Sequence[str]) -> AttributeReader:
    return lambda block, fields: hlo_records.word(words, fields.get(field, 0))


def of_record(field: int, record: Record) -> AttributeReader:
    return lambda block, fields: block.cached(record.read, fields[field])


# ------------------------------------------------------------------------------------------------- values, movement


def _constant(block: ComputationReader, given: Given) -> Value:
    array = block.literal(given.fields[Field.LITERAL], given.shape)
    return block.constant(array, given.shape)


constant: Final = HloReader(_constant, frozenset((Field.LITERAL,)))
iota: Final = plain("iota", Field.DIMENSIONS, dimension=dimension)
broadcast: Final = plain("broadcast", Field.DIMENSIONS, dimensions=dimensions)
transpose: Final = plain("transpose", Field.DIMENSIONS, dimensions=dimensions)
reverse: Final = plain("reverse", Field.DIMENSIONS, dimensions=dimensions)
gather: Final = plain(
    "gather",
    *(Field.GATHER_DIMENSION_NUMBERS, Field.GATHER_SLICE_SIZES, Field.INDICES_ARE_SORTED),
    dimension_numbers=of_record(Field.GATHER_DIMENSION_NUMBERS, hlo_records.GATHER),
    slice_sizes=list_of(Field.GATHER_SLICE_SIZES),
    indices_are_sorted=flag(Field.INDICES_ARE_SORTED),
)


def _three(data: bytes) -> tuple[int, int, int]:
    """The fields 1, 2 and 3 of a message of integers."""
    found = values(data)
    if not found.keys() <= {1, 2, 3}:
        raise ValueError("a field that is not known")
    (first,), (second,), (third,) = (unpacked_numbers(found.get(n, 0)) for n in (1, 2, 3))
    return first, second, third


def _threes(messages: Sequence[bytes], *names: str) -> dict[str, tuple[int, ...]]:
    """What messages of three integers say of each dimension, as attributes of these names."""
    rows = [_three(m) for m in messages]
    return {name: tuple(row[n] for row in rows) for n, name in enumerate(names)}


def _slice(block: ComputationReader, given: Given) -> Value:
    messages = each(given.fields.get(Field.SLICE_DIMENSIONS, []))
    return block.emit(
        "slice", given.shape, given.operands, _threes(messages, "starts", "limits", "strides")
    )


def _pad(block: ComputationReader, given: Given) -> Value:
    config = values(given.fields.get(Field.PADDING_CONFIG, b""), repeated=frozenset((1,)))
    if not config.keys() <= {1}:
        raise ValueError("a field that is not known")
    edges = _threes(each(config.get(1, [])), "low", "high", "interior")
    return block.emit("pad", given.shape, given.operands, edges)


def _concatenate(block: ComputationReader, given: Given) -> Value:
    if len(given.operands) == 1:
        only: Instruction = given.operands[0]
        return only
    along = {"dimension": dimension(block, given.fields)}
    return block.emit("concatenate", given.shape, given.operands, along)


slice_: Final = HloReader(_slice, frozenset((Field.SLICE_DIMENSIONS,)))
pad: Final = HloReader(_pad, frozenset((Field.PADDING_CONFIG,)))
concatenate: Final = HloReader(_concatenate, frozenset((Field.DIMENSIONS,)))


def _scalars(block: ComputationReader, given: Given, first: int) -> list[Instruction]:
    """The operands with a scalar for each start index, of which programs in the form of before 2019 have a vector, as
    PyTorch/XLA writes them.
    """
    operands = given.operands
    if len(operands) != first + 1 or len(operands[first].dims) != 1:
        return operands
    vector = operands[first]
    scalars = []
    for n in range(vector.dims[0]):
        bounds = {"starts": (n,), "limits": (n + 1,), "strides": (1,)}
        one = block.emit("slice", Shape(vector.dtype, (1,)), (vector,), bounds)
        scalars.append(block.emit("reshape", Shape(vector.dtype), (one,)))
    return [*operands[:first], *scalars]


def _dynamic_slice(block: ComputationReader, given: Given) -> Value:
    sizes = {"slice_sizes": numbers(Field.DYNAMIC_SLICE_SIZES, given.fields)}
    return block.emit("dynamic-slice", given.shape, _scalars(block, given, 1), sizes)


def _dynamic_update_slice(block: ComputationReader, given: Given) -> Value:
    return block.emit("dynamic-update-slice", given.shape, _scalars(block, given, 2))


dynamic_slice: Final = HloReader(_dynamic_slice, frozenset((Field.DYNAMIC_SLICE_SIZES,)))
dynamic_update_slice: Final = HloReader(_dynamic_update_slice)


# ------------------------------------------------------------------------------------------------------ elementwise


def _compare(block: ComputationReader, given: Given) -> Value:
    fields = given.fields
    kind = fields.get(Field.COMPARISON_TYPE, b"").decode()
    attributes = {
        "direction": fields.get(Field.COMPARISON_DIRECTION, b"").decode(),
        "comparison_type": kind or default_comparison_type(given.operands[0].dtype),
    }
    return block.emit("compare", given.shape, given.operands, attributes)


def _bitcast_convert(block: ComputationReader, given: Given) -> Value:
    """Bits as they are; of one type, which complex numbers have too, they are the value."""
    operand: Instruction = given.operands[0]
    if operand.shape == given.shape:
        return operand
    return block.emit("bitcast-convert", given.shape, given.operands)


def part(opcode: str) -> HloReader:
    """``real`` and ``imag``, which HLO also allows on real operands."""

    def read(block: ComputationReader, given: Given) -> Value:
        (operand,) = given.operands
        if operand.dtype.is_complex:
            return block.emit(opcode, given.shape, given.operands)
        found: Instruction = operand if opcode == "real" else block.zeros(operand.shape)
        return found

    return HloReader(read)


# Messages that ask for no accuracy: nothing, and the mode DEFAULT.
_ANY_ACCURACY: Final = (b"", b"\x08\x00")


def function(opcode: str) -> HloReader:
    """A function of one operand. What a program wants to be more exact has reasons that StableHLO's reader knows."""

    def read(block: ComputationReader, given: Given) -> Value:
        if given.fields.get(Field.RESULT_ACCURACY, b"") not in _ANY_ACCURACY:
            raise ValueError("a function of a certain accuracy")
        return block.emit(opcode, given.shape, given.operands)

    return HloReader(read, frozenset((Field.RESULT_ACCURACY,)))


def _convert(block: ComputationReader, given: Given) -> Value:
    """What becomes a truth value is compared with 0."""
    (operand,), shape = given.operands, given.shape
    if shape.dtype is not dtypes.PRED or operand.dtype is dtypes.PRED:
        return block.emit("convert", shape, given.operands)
    kind = {"direction": "NE", "comparison_type": default_comparison_type(operand.dtype)}
    return block.emit("compare", shape, (operand, block.zeros(operand.shape)), kind)


convert: Final = HloReader(_convert)
compare: Final = HloReader(_compare, frozenset((Field.COMPARISON_DIRECTION, Field.COMPARISON_TYPE)))
bitcast_convert: Final = HloReader(_bitcast_convert)
reduce_precision: Final = plain(
    "reduce-precision",
    *(Field.EXPONENT_BITS, Field.MANTISSA_BITS),
    exponent_bits=integer(Field.EXPONENT_BITS),
    mantissa_bits=integer(Field.MANTISSA_BITS),
)


# ------------------------------------------------------------------------------------- bodies on scalars, and windows


def _window(block: ComputationReader, fields: dict[int, Any]) -> tuple[WindowDimension, ...]:
    return block.cached(_read_window, fields.get(Field.WINDOW, b""))


def _read_window(data: bytes) -> tuple[WindowDimension, ...]:
    given = values(data, repeated=frozenset((1,)))
    if not given.keys() <= {1}:
        raise ValueError("a field that is not known")
    window = tuple(hlo_records.WINDOW.read(d) for d in each(given.get(1, [])))
    if any(0 in (w.size, w.stride, w.base_dilation, w.window_dilation) for w in window):
        raise ValueError("a window without a size, stride or dilation")
    return window


def _forwards(block: ComputationReader, fields: dict[int, Any]) -> tuple[WindowDimension, ...]:
    """A window without reversed dimensions."""
    window = _window(block, fields)
    if any(w.reversal for w in window):
        raise ValueError("a reversed window")
    return window


def with_body(
    opcode: str,
    bodies: Sequence[str],
    *fields: int,
    accumulates: bool = False,
    **parts: AttributeReader,
) -> HloReader:
    """The reader of an instruction that calls ``bodies`` on scalars; ``parts`` as in :func:`plain`.

    ``accumulates``: the operands' element types are those of the results, once for values and once for initial values.
    """

    def read(block: ComputationReader, given: Given) -> Value:
        if accumulates:
            results = (
                [given.shape] if isinstance(given.shape, Shape) else list(given.shape.elements)
            )
            if [o.dtype for o in given.operands] != [r.dtype for r in results] * 2:
                raise ValueError("operands of other types than the results")
        attributes = {name: part_(block, given.fields) for name, part_ in parts.items()}
        called = block.bodies(given, bodies)
        return block.emit_results(opcode, given.shape, given.operands, attributes, called)

    return HloReader(read, frozenset((Field.CALLED_COMPUTATION_IDS, *fields)))


reduce: Final = with_body(
    "reduce", ("reduce_body",), Field.DIMENSIONS, accumulates=True, dimensions=dimensions
)
map_: Final = with_body("map", ("map_body",), Field.DIMENSIONS, dimensions=dimensions)
sort: Final = with_body(
    "sort",
    ("sort_comparator",),
    *(Field.DIMENSIONS, Field.IS_STABLE),
    dimension=dimension,
    is_stable=flag(Field.IS_STABLE),
)
reduce_window: Final = with_body(
    "reduce-window", ("reduce_window_body",), Field.WINDOW, accumulates=True, window=_forwards
)
select_and_scatter: Final = with_body(
    "select-and-scatter", ("select_body", "scatter_body"), Field.WINDOW, window=_forwards
)
scatter: Final = with_body(
    "scatter",
    ("scatter_body",),
    *(Field.SCATTER_DIMENSION_NUMBERS, Field.INDICES_ARE_SORTED, Field.UNIQUE_INDICES),
    dimension_numbers=of_record(Field.SCATTER_DIMENSION_NUMBERS, hlo_records.SCATTER),
    indices_are_sorted=flag(Field.INDICES_ARE_SORTED),
    unique_indices=flag(Field.UNIQUE_INDICES),
)


def batch_norm(opcode: str) -> HloReader:
    return plain(
        opcode,
        *(Field.EPSILON, Field.FEATURE_INDEX),
        epsilon=lambda block, fields: float32_value(fields.get(Field.EPSILON, bytes(4))),
        feature_index=integer(Field.FEATURE_INDEX),
    )


# ------------------------------------------------------------------------------------------- products, linear algebra


def _precision(block: ComputationReader, fields: dict[int, Any]) -> tuple[tuple[str, ...], str]:
    return block.cached(_read_precision, fields.get(Field.PRECISION_CONFIG, b""))


def _read_precision(data: bytes) -> tuple[tuple[str, ...], str]:
    """The precision of each operand, and the algorithm, if one is asked for."""
    given = values(data, repeated=frozenset((1,)))
    if not given.keys() <= {1, 2}:
        raise ValueError("a field that is not known")
    found = tuple(
        hlo_records.word(hlo_records.PRECISIONS, n) for n in unpacked_numbers(given.get(1, b""))
    )
    algorithm = given.get(2, 0)
    names = [name for name, number in hlo_records.ALGORITHMS.items() if number == algorithm]
    if algorithm and not names:
        raise ValueError("an algorithm that is not known")
    return found if len(found) == 2 else ("DEFAULT", "DEFAULT"), names[0] if names else ""


def _dot(block: ComputationReader, given: Given) -> Value:
    precision, algorithm = _precision(block, given.fields)
    attributes = {
        "dimension_numbers": block.cached(
            hlo_records.DOT.read, given.fields.get(Field.DOT_DIMENSION_NUMBERS, b"")
        ),
        "precision": precision,
    }
    if algorithm:
        attributes["algorithm"] = algorithm
    return block.emit("dot", given.shape, given.operands, attributes)


dot: Final = HloReader(_dot, frozenset((Field.DOT_DIMENSION_NUMBERS, Field.PRECISION_CONFIG)))


def _ragged_dot(block: ComputationReader, given: Given) -> Value:
    numbers = values(given.fields[Field.RAGGED_DOT_DIMENSION_NUMBERS])
    if not numbers.keys() <= {1, 2, 3}:
        raise ValueError("a field that is not known")
    ragged, groups = (tuple(unpacked_numbers(numbers.get(n, b""))) for n in (2, 3))
    if len(ragged) != 1 or len(groups) > 1 or len(given.operands[2].dims) != 1:
        raise ValueError("a ragged dot whose groups are not those of one dimension")
    attributes = {
        "dimension_numbers": block.cached(hlo_records.DOT.read, numbers.get(1, b"")),
        "ragged": ragged[0],
        "group": groups[0] if groups else -1,
        "precision": _without_algorithm(_precision(block, given.fields)),
    }
    return block.emit("ragged-dot", given.shape, given.operands, attributes)


ragged_dot: Final = HloReader(
    _ragged_dot, frozenset((Field.RAGGED_DOT_DIMENSION_NUMBERS, Field.PRECISION_CONFIG))
)
convolution: Final = plain(
    "convolution",
    *(Field.WINDOW, Field.CONVOLUTION_DIMENSION_NUMBERS, Field.PRECISION_CONFIG),
    *(Field.FEATURE_GROUP_COUNT, Field.BATCH_GROUP_COUNT),
    window=_window,
    dimension_numbers=of_record(Field.CONVOLUTION_DIMENSION_NUMBERS, hlo_records.CONVOLUTION),
    feature_group_count=lambda block, fields: max(1, fields.get(Field.FEATURE_GROUP_COUNT, 0)),
    batch_group_count=lambda block, fields: max(1, fields.get(Field.BATCH_GROUP_COUNT, 0)),
    precision=lambda block, fields: _without_algorithm(_precision(block, fields)),
)


def _without_algorithm(precision: tuple[tuple[str, ...], str]) -> tuple[str, ...]:
    if precision[1]:
        raise ValueError("a convolution with an algorithm")
    return precision[0]


def _read_flags(data: bytes) -> dict[int, Any]:
    return values(data)


def in_options(field: int, number: int) -> AttributeReader:
    """A flag in a message of options."""
    return lambda block, fields: bool(
        block.cached(_read_flags, fields.get(field, b"")).get(number, 0)
    )


cholesky: Final = plain(
    "cholesky", Field.CHOLESKY_OPTIONS, lower=in_options(Field.CHOLESKY_OPTIONS, 1)
)
triangular_solve: Final = plain(
    "triangular-solve",
    Field.TRIANGULAR_SOLVE_OPTIONS,
    left_side=in_options(Field.TRIANGULAR_SOLVE_OPTIONS, 1),
    lower=in_options(Field.TRIANGULAR_SOLVE_OPTIONS, 2),
    unit_diagonal=in_options(Field.TRIANGULAR_SOLVE_OPTIONS, 3),
    transpose_a=lambda block, fields: hlo_records.word(
        hlo_records.TRANSPOSES,
        block.cached(_read_flags, fields.get(Field.TRIANGULAR_SOLVE_OPTIONS, b"")).get(4, 0),
    ),
)
fft: Final = plain(
    "fft",
    *(Field.FFT_TYPE, Field.FFT_LENGTH),
    fft_type=word(Field.FFT_TYPE, hlo_records.FFT_TYPES),
    fft_length=list_of(Field.FFT_LENGTH),
)


# ------------------------------------------------------------------------------------ control flow, tuples, random


def _while(block: ComputationReader, given: Given) -> Value:
    state = block.leaves(given.operands)
    if not state:
        raise ValueError("a loop without any state")
    body, condition = block.called(given, ("while_body", "while_condition"))
    return block.emit_results("while", given.shape, state, {}, (condition, body))


def _conditional(block: ComputationReader, given: Given) -> Value:
    selector, *branches = given.operands
    operands = [block.leaves([branch]) for branch in branches]
    called = block.called(given, ["branch"] * len(branches))
    counts = {"operand_counts": tuple(map(len, operands))}
    flat = [selector, *(leaf for leaves in operands for leaf in leaves)]
    return block.emit_results("conditional", given.shape, flat, counts, called)


def _call(block: ComputationReader, given: Given) -> Value:
    called = block.called(given, ("",))
    return block.emit_results("call", given.shape, block.leaves(given.operands), {}, called)


def _tuple(block: ComputationReader, given: Given) -> Value:
    return tuple(given.operands)


def _get_tuple_element(block: ComputationReader, given: Given) -> Value:
    (whole,) = given.operands
    if not isinstance(whole, tuple):
        raise ValueError("an element of a value that is not a tuple")
    element: Instruction = whole[given.fields.get(Field.TUPLE_INDEX, 0)]
    return element


def _barrier(block: ComputationReader, given: Given) -> Value:
    operands = block.leaves(given.operands)
    if not operands:
        raise ValueError("a barrier without operands")
    return block.emit_results("optimization-barrier", given.shape, operands)


def _rng(block: ComputationReader, given: Given) -> Value:
    kind = hlo_records.word(hlo_records.DISTRIBUTIONS, given.fields.get(Field.DISTRIBUTION, 0))
    return block.emit("rng", given.shape, given.operands, {"distribution": kind})


def _rng_bit_generator(block: ComputationReader, given: Given) -> Value:
    if not isinstance(given.shape, TupleShape) or len(given.shape.elements) != 2:
        raise ValueError("random bits without a state")
    bits = given.shape.elements[1].dtype  # type: ignore[union-attr]
    if not bits.is_integer or bits.bits < 8:
        raise ValueError("random bits that are not whole bytes")
    algorithm = hlo_records.word(
        hlo_records.RNG_ALGORITHMS, given.fields.get(Field.RNG_ALGORITHM, 0)
    )
    return block.emit_results(
        "rng-bit-generator", given.shape, given.operands, {"algorithm": algorithm}
    )


_CALLING: Final = partial(
    HloReader, fields=frozenset((Field.CALLED_COMPUTATION_IDS,)), takes_tuples=True
)
while_: Final = _CALLING(_while)
conditional: Final = _CALLING(_conditional)
call: Final = _CALLING(_call)
tuple_: Final = HloReader(_tuple)
get_tuple_element: Final = HloReader(
    _get_tuple_element, frozenset((Field.TUPLE_INDEX,)), takes_tuples=True
)
barrier: Final = HloReader(_barrier, takes_tuples=True)
rng: Final = HloReader(_rng, frozenset((Field.DISTRIBUTION,)))
rng_bit_generator: Final = HloReader(_rng_bit_generator, frozenset((Field.RNG_ALGORITHM,)))
