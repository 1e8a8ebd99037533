"""HLO: the compiler's intermediate representation.

A :class:`Module` holds an entry :class:`Computation`; a computation is a list of :class:`Instruction` in an order in
which every operand stands before its user, ending in (not necessarily with) its ``root``. Instructions name
computations they call in ``called`` (a reduce's body, a while's condition and body, a fusion's computation).

Rules that make passes small:

* Instructions and shapes are immutable by convention: a pass never writes to one, it makes a new one (``replace``)
  and rebuilds the computation. Literals are read-only NumPy arrays.
* All arrays are dense row-major; there are no layouts in the IR. (Readers turn other layouts into transposes.)
* Values with several results have a :class:`TupleShape`; ``get-tuple-element`` reads one. Tuples do not nest, and
  only ``tuple`` (as a root), ``while``, ``conditional``, ``call``, ``fusion``, ``sort``, ``reduce``, ``reduce-window``,
  ``scatter``, ``custom-call``, ``rng-bit-generator``, ``topk`` and ``batch-norm-*`` produce them.
* ``while``, ``conditional`` and ``call`` take their state as separate operands, not as one tuple; their
  computations take as many parameters. A computation with several results has a ``tuple`` root.
* Opcode names and attribute names are HLO's. :data:`OPCODES` lists every opcode with what its attributes hold;
  :mod:`.verifier` says what a valid instruction is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from . import dtypes
from .dtypes import DType

if TYPE_CHECKING:
    from .cost import Costs

# The dimensions of an array in the order of its memory, fastest first, as XLA's minor_to_major.
LayoutOrder = tuple[int, ...]
# A layout that is for the compiler to choose.
AUTO_LAYOUT: Final[LayoutOrder] = (-1,)


@dataclass(frozen=True, slots=True)
class Shape:
    """A dense row-major array's element type and dimensions."""

    dtype: DType
    dims: tuple[int, ...] = ()

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def elements(self) -> int:
        return math.prod(self.dims)

    @property
    def bytes(self) -> int:
        return math.prod(self.dims) * self.dtype.size

    def with_dtype(self, dtype: DType) -> Shape:
        return Shape(dtype, self.dims)

    def with_dims(self, dims: Iterable[int]) -> Shape:
        return Shape(self.dtype, tuple(dims))

    def __str__(self) -> str:
        return f"{self.dtype.name}[{','.join(map(str, self.dims))}]"


@dataclass(frozen=True, slots=True)
class TupleShape:
    """The shapes of several results. Elements are arrays or tokens, never tuples."""

    elements: tuple[Shape | TokenShape, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.elements))})"


@dataclass(frozen=True, slots=True)
class TokenShape:
    """The shape of a value that only orders side effects."""

    def __str__(self) -> str:
        return "token[]"


AnyShape = Shape | TupleShape | TokenShape
TOKEN: Final = TokenShape()


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where an instruction came from in the user's program: shown in errors, dumps and profiles."""

    op_name: str = ""
    source_file: str = ""
    source_line: int = 0

    def __str__(self) -> str:
        place = f"{self.source_file}:{self.source_line}" if self.source_file else ""
        return " at ".join(part for part in (self.op_name, place) if part)


# ---------------------------------------------------------------------------------------------- attribute values


@dataclass(frozen=True, slots=True)
class DotDimensionNumbers:
    """Result dimensions: batch (in lhs_batch order), then free lhs, then free rhs dimensions, each in order."""

    lhs_contracting: tuple[int, ...]
    rhs_contracting: tuple[int, ...]
    lhs_batch: tuple[int, ...] = ()
    rhs_batch: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a convolution's, reduce-window's or select-and-scatter's window."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    base_dilation: int = 1
    window_dilation: int = 1
    reversal: bool = False


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    input_batch: int
    input_feature: int
    input_spatial: tuple[int, ...]
    kernel_input_feature: int
    kernel_output_feature: int
    kernel_spatial: tuple[int, ...]
    output_batch: int
    output_feature: int
    output_spatial: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GatherDimensionNumbers:
    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    index_vector_dim: int
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScatterDimensionNumbers:
    update_window_dims: tuple[int, ...]
    inserted_window_dims: tuple[int, ...]
    scatter_dims_to_operand_dims: tuple[int, ...]
    index_vector_dim: int
    input_batching_dims: tuple[int, ...] = ()
    scatter_indices_batching_dims: tuple[int, ...] = ()


# ------------------------------------------------------------------------------------------------------- opcodes


@dataclass(frozen=True, slots=True)
class OpcodeSpec:
    """What is fixed about an opcode.

    ``operands``: number of operands, or -1 for any. ``attributes``: names that must be present.
    ``elementwise``: the result's element at an index depends on the operands' elements at that index alone, and
    all operands have the result's dimensions (the first and last operand of ``clamp`` and the first of ``select`` may
    also be scalars). ``called``: number of called computations, or -1 for any. ``side_effect``: never removed.
    """

    operands: int
    attributes: tuple[str, ...] = ()
    elementwise: bool = False
    called: int = 0
    side_effect: bool = False


_UNARY_OPCODES: Final = (
    "abs negate sign not exponential exponential-minus-one log log-plus-one sqrt rsqrt cbrt tanh tan"
    " sine cosine sinh cosh asin acos logistic erf erf-inv erfc lgamma digamma floor ceil round-nearest-afz"
    " round-nearest-even popcnt count-leading-zeros"
)
_BINARY_OPCODES: Final = (
    "add subtract multiply divide remainder maximum minimum power atan2 igamma igammac igamma-grad-a"
    " zeta polygamma and or xor shift-left shift-right-logical shift-right-arithmetic"
)
_UNARY: Final = OpcodeSpec(1, elementwise=True)
_BINARY: Final = OpcodeSpec(2, elementwise=True)

# Functions that HLO does not have (it has erf alone), and the target of the custom call that stands for each where HLO
# is written.
SPECIAL_FUNCTIONS: Final = (
    *("erfc", "erf-inv", "lgamma", "digamma", "igamma", "igammac", "igamma-grad-a", "zeta"),
    *("polygamma", "regularized-incomplete-beta"),
)
WRITTEN_AS_CALLS: Final = {name: f"tripont.{name.replace('-', '_')}" for name in SPECIAL_FUNCTIONS}

# fmt: off
OPCODES: Final[Mapping[str, OpcodeSpec]] = {
    # Elementwise, one operand. Result has the operand's dtype unless said.
    **dict.fromkeys(_UNARY_OPCODES.split(), _UNARY),
    "is-finite": _UNARY,  # -> pred
    "real": _UNARY,  # complex -> component
    "imag": _UNARY,  # complex -> component
    "convert": _UNARY,  # -> the result shape's dtype
    "bitcast-convert": OpcodeSpec(1),  # of one width: elementwise; else the minor dimension appears or goes
    "reduce-precision": OpcodeSpec(1, ("exponent_bits", "mantissa_bits"), elementwise=True),
    # Elementwise, two operands of one shape.
    **dict.fromkeys(_BINARY_OPCODES.split(), _BINARY),
    "complex": _BINARY,  # f32,f32 -> c64; f64,f64 -> c128
    # direction: EQ NE LT LE GT GE; comparison_type: FLOAT TOTALORDER SIGNED UNSIGNED. -> pred
    "compare": OpcodeSpec(2, ("direction", "comparison_type"), elementwise=True),
    # Elementwise, three operands.
    "select": OpcodeSpec(3, elementwise=True),  # pred, on_true, on_false
    "clamp": OpcodeSpec(3, elementwise=True),  # min, operand, max
    "regularized-incomplete-beta": OpcodeSpec(3, elementwise=True),  # a, b, x
    # Values from nothing.
    "parameter": OpcodeSpec(0, ("index",)),
    "constant": OpcodeSpec(0, ("literal",)),  # literal: read-only np.ndarray of the shape's numpy dtype and dims
    "iota": OpcodeSpec(0, ("dimension",)),
    "partition-id": OpcodeSpec(0),
    "replica-id": OpcodeSpec(0),
    # Data movement.
    "broadcast": OpcodeSpec(1, ("dimensions",)),  # operand dimension i is result dimension dimensions[i]
    "reshape": OpcodeSpec(1),
    "transpose": OpcodeSpec(1, ("dimensions",)),  # result dimension i is operand dimension dimensions[i]
    "slice": OpcodeSpec(1, ("starts", "limits", "strides")),
    "pad": OpcodeSpec(2, ("low", "high", "interior")),  # operand, scalar padding value
    "concatenate": OpcodeSpec(-1, ("dimension",)),
    "reverse": OpcodeSpec(1, ("dimensions",)),
    "dynamic-slice": OpcodeSpec(-1, ("slice_sizes",)),  # operand, scalar start indices...
    "dynamic-update-slice": OpcodeSpec(-1),  # operand, update, scalar start indices...
    # operand, indices. dimension_numbers: GatherDimensionNumbers
    "gather": OpcodeSpec(2, ("dimension_numbers", "slice_sizes", "indices_are_sorted")),
    # operands..., indices, updates...; dimension_numbers: ScatterDimensionNumbers; body(lhs..., rhs...)
    "scatter": OpcodeSpec(-1, ("dimension_numbers", "indices_are_sorted", "unique_indices"), called=1),
    "copy": OpcodeSpec(1),
    # Sizes that depend on values: the array has its bound's shape, and a dimension's size is a scalar of its own
    # (passes/dynamic_sizes.py, which resolves these before any other pass). dynamic_dimensions: those of the result
    # that the program says to have such a size.
    "set-dimension-size": OpcodeSpec(2, ("dimension", "dynamic_dimensions")),  # operand, s32 size
    "get-dimension-size": OpcodeSpec(1, ("dimension",)),  # -> s32
    "dynamic-reshape": OpcodeSpec(-1, ("dynamic_dimensions",)),  # operand, s32 sizes... or none
    # Reductions. operands..., init values...; body(accumulators..., values...) -> the results
    "reduce": OpcodeSpec(-1, ("dimensions",), called=1),
    "reduce-window": OpcodeSpec(-1, ("window",), called=1),  # window: tuple[WindowDimension, ...] of operand rank
    # operand, source, init; called: select(pred), scatter
    "select-and-scatter": OpcodeSpec(3, ("window",), called=2),
    # Contractions. precision: tuple of "DEFAULT" | "HIGH" | "HIGHEST"; the result's dtype is the accumulator's;
    # algorithm (only if the program asks for one): XLA's name without "dot_", such as "bf16_bf16_f32_x3"
    "dot": OpcodeSpec(2, ("dimension_numbers", "precision")),
    # window: spatial dimensions, in the order of dimension_numbers.*_spatial
    "convolution": OpcodeSpec(2, (
        "window", "dimension_numbers", "feature_group_count", "batch_group_count", "precision")),
    # Ordering. sort: operands...; body(a0, b0, a1, b1, ...) -> pred
    "sort": OpcodeSpec(-1, ("dimension", "is_stable"), called=1),
    "topk": OpcodeSpec(1, ("k", "largest")),  # along the last dimension -> (values, s32 indices), stable
    # Control flow.
    "while": OpcodeSpec(-1, called=2),  # called: condition, body
    # selector (pred: 0 true, 1 false; s32), operands
    "conditional": OpcodeSpec(-1, ("operand_counts",), called=-1),
    "call": OpcodeSpec(-1, called=1),
    "map": OpcodeSpec(-1, ("dimensions",), called=1),  # body on scalars, applied elementwise
    "tuple": OpcodeSpec(-1),
    "get-tuple-element": OpcodeSpec(1, ("index",)),
    "optimization-barrier": OpcodeSpec(-1),  # as many results as operands
    "after-all": OpcodeSpec(-1),
    # Random numbers. algorithm: "THREE_FRY" | "PHILOX" | "DEFAULT"; state u64[k] -> (new state, bits)
    "rng-bit-generator": OpcodeSpec(1, ("algorithm",)),
    "rng": OpcodeSpec(2, ("distribution",), side_effect=True),  # "uniform" (low, high) | "normal" (mean, deviation)
    # Linear algebra and signal processing.
    "fft": OpcodeSpec(1, ("fft_type", "fft_length")),  # "FFT" "IFFT" "RFFT" "IRFFT"
    "cholesky": OpcodeSpec(1, ("lower",)),
    "triangular-solve": OpcodeSpec(2, ("left_side", "lower", "unit_diagonal", "transpose_a")),  # NO_TRANSPOSE ...
    "batch-norm-training": OpcodeSpec(3, ("epsilon", "feature_index")),
    "batch-norm-inference": OpcodeSpec(5, ("epsilon", "feature_index")),
    "batch-norm-grad": OpcodeSpec(5, ("epsilon", "feature_index")),
    # custom_call_target: str; backend_config: bytes | dict; api_version: int; has_side_effect: bool;
    # output_operand_aliases: tuple[(output index, operand index), ...]; operand_layouts and result_layouts (only if one
    # is not row-major): a minor-to-major order for each
    "custom-call": OpcodeSpec(-1, (
        "custom_call_target", "backend_config", "api_version", "has_side_effect", "output_operand_aliases")),
    # Collectives. replica_groups: tuple[tuple[int, ...], ...]; channel_id: int
    "all-reduce": OpcodeSpec(-1, ("replica_groups", "channel_id", "use_global_device_ids"), called=1),
    "all-gather": OpcodeSpec(-1, ("replica_groups", "channel_id", "use_global_device_ids", "all_gather_dimension")),
    # split_dimension, concat_dimension: of every operand; without, operand i goes to the i-th device of the group
    "all-to-all": OpcodeSpec(-1, ("replica_groups", "channel_id")),
    "reduce-scatter": OpcodeSpec(-1, (
        "replica_groups", "channel_id", "use_global_device_ids", "scatter_dimension"), called=1),
    "collective-permute": OpcodeSpec(-1, ("source_target_pairs", "channel_id")),
    "collective-broadcast": OpcodeSpec(-1, ("replica_groups", "channel_id")),
    # Made by passes. kind: "loop" | "reduce" | "transpose" | "row" | ... (see fusion/fuse.py); the computation's
    # parameters stand for the operands, its root (or root tuple's operands) for the results.
    "fusion": OpcodeSpec(-1, ("kind",), called=1),
    # A reshape that moves no data: the result is the operand's buffer.
    "bitcast": OpcodeSpec(1),
    # A call of the runtime's library (oneDNN and our own C++). name: str; config: dict[str,
    # LibraryAttribute]; called: the function that the library calls back (a sort's comparator), if any.
    "library-call": OpcodeSpec(-1, ("name", "config"), called=-1),
    # A generated matrix product and the packing of its right-hand side before it. config: see codegen/kernels/pack.py
    # and codegen/kernels/packed_dot.py.
    "pack": OpcodeSpec(1, ("config",)),
    "packed-dot": OpcodeSpec(-1, ("config",)),
    # A generated convolution. config: see codegen/kernels/window_product.py.
    "window-product": OpcodeSpec(-1, ("config",)),
}
# fmt: on


# --------------------------------------------------------------------------------------------------------- graph


class Instruction:
    """One operation. Identity is object identity; treat every field as read-only.

    ``attributes`` holds hashable values (tuples, dataclasses, str, int, float, bool, bytes) except for a constant's
    ``literal`` and the dicts of custom and library calls.
    """

    __slots__ = ("attributes", "called", "metadata", "name", "opcode", "operands", "shape")

    def __init__(
        self,
        opcode: str,
        shape: AnyShape,
        operands: Sequence[Instruction] = (),
        attributes: Mapping[str, Any] | None = None,
        called: Sequence[Computation] = (),
        name: str = "",
        metadata: Metadata | None = None,
    ) -> None:
        self.opcode = opcode
        self.shape = shape
        self.operands = tuple(operands)
        self.attributes: Mapping[str, Any] = attributes if attributes is not None else {}
        self.called = tuple(called)
        self.name = name  # unique in its computation once the computation is named (Computation.assign_names)
        self.metadata = metadata

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of an array-shaped result."""
        return self.shape.dims  # type: ignore[union-attr]

    @property
    def dtype(self) -> DType:
        """The element type of an array-shaped result."""
        return self.shape.dtype  # type: ignore[union-attr]

    @property
    def elements(self) -> int:
        """The number of elements of an array-shaped result."""
        return math.prod(self.shape.dims)  # type: ignore[union-attr]

    @property
    def result_shapes(self) -> tuple[Shape | TokenShape, ...]:
        """The shapes of the results: one for an array, all elements of a tuple."""
        return self.shape.elements if isinstance(self.shape, TupleShape) else (self.shape,)

    @property
    def is_elementwise(self) -> bool:
        return OPCODES[self.opcode].elementwise

    @property
    def has_side_effect(self) -> bool:
        stack = [self]
        while stack:
            i = stack.pop()
            if i.opcode == "custom-call":
                if i.attributes["has_side_effect"]:
                    return True
                continue
            if OPCODES[i.opcode].side_effect:
                return True
            stack += [inner for c in i.called for inner in c.instructions]
        return False

    def replace(
        self,
        *,
        operands: Sequence[Instruction] | None = None,
        shape: AnyShape | None = None,
        attributes: Mapping[str, Any] | None = None,
        called: Sequence[Computation] | None = None,
    ) -> Instruction:
        """A copy with some fields changed; ``attributes`` replaces the whole mapping."""
        return Instruction(
            self.opcode,
            self.shape if shape is None else shape,
            self.operands if operands is None else operands,
            self.attributes if attributes is None else attributes,
            self.called if called is None else called,
            self.name,
            self.metadata,
        )

    def __repr__(self) -> str:
        operands = ", ".join(o.name or o.opcode for o in self.operands)
        return f"%{self.name or '?'} = {self.shape} {self.opcode}({operands})"


class Computation:
    """Parameters, instructions in dependency order (parameters included), and the instruction that is the result."""

    __slots__ = ("instructions", "name", "parameters", "root")

    def __init__(
        self,
        name: str,
        parameters: Sequence[Instruction],
        instructions: Sequence[Instruction],
        root: Instruction,
    ) -> None:
        self.name = name
        self.parameters = tuple(parameters)
        self.instructions = tuple(instructions)
        self.root = root

    @property
    def results(self) -> tuple[Instruction, ...]:
        """The instructions whose values are the results: a root tuple's operands, else the root."""
        return self.root.operands if self.root.opcode == "tuple" else (self.root,)

    def users(self) -> dict[Instruction, list[Instruction]]:
        """For each instruction, its users, each once, in order."""
        users: dict[Instruction, list[Instruction]] = {i: [] for i in self.instructions}
        for instruction in self.instructions:
            for operand in dict.fromkeys(instruction.operands):
                users[operand].append(instruction)
        return users

    def assign_names(self) -> None:
        """Give every unnamed or ambiguously named instruction a unique name, ``opcode.N``, as HLO text does."""
        seen: dict[str, int] = {}
        for instruction in self.instructions:
            base = instruction.name or instruction.opcode.replace("-", "_")
            count = seen.get(base)
            if count is None and instruction.name:
                seen[base] = 0
                continue
            name = base
            count = count or 0
            while name in seen:
                count += 1
                name = f"{base}.{count}"
            seen[base] = count
            seen.setdefault(name, 0)
            instruction.name = name

    @staticmethod
    def from_root(name: str, parameters: Sequence[Instruction], root: Instruction) -> Computation:
        """A computation of everything that ``root`` needs (and all parameters), in dependency order."""
        return Computation(name, parameters, topological_order([*parameters, root]), root)


def topological_order(roots: Iterable[Instruction]) -> list[Instruction]:
    """All instructions that ``roots`` depend on, operands first. No recursion, linear time."""
    order: list[Instruction] = []
    done: set[Instruction] = set()
    for root in roots:
        stack: list[tuple[Instruction, Iterator[Instruction]]] = []
        if root not in done:
            done.add(root)
            stack.append((root, iter(root.operands)))
        while stack:
            instruction, operands = stack[-1]
            for operand in operands:
                if operand not in done:
                    done.add(operand)
                    stack.append((operand, iter(operand.operands)))
                    break
            else:
                order.append(instruction)
                stack.pop()
    return order


@dataclass(slots=True)
class Module:
    """A whole program for one device (or, before partitioning, for several)."""

    name: str
    entry: Computation
    # Result i may (or must) be written into the memory of parameter j: (i, j, must).
    input_output_aliases: tuple[tuple[int, int, bool], ...] = ()
    # Parameters that may be overwritten though no result is tied to them (jax.buffer_donor).
    buffer_donors: tuple[int, ...] = ()
    parameter_memory_kinds: tuple[str, ...] = ()  # empty: all "device"
    result_memory_kinds: tuple[str, ...] = ()
    num_replicas: int = 1
    num_partitions: int = 1
    frontend_attributes: dict[str, str] = field(default_factory=dict)
    # What passes/dynamic_sizes.py has made of sizes that depend on values. The first visible_results results are the
    # program's (-1: all of them); the others are sizes and truth values about them.
    visible_results: int = -1
    # (i, d, j): dimension d of result i is a bound, and result j its size.
    dynamic_results: tuple[tuple[int, int, int], ...] = ()
    # (j, message): unless result j is true, the program has failed, and the message says why.
    size_checks: tuple[tuple[int, str], ...] = ()
    # In which order of its dimensions, fastest first, each array of the caller lies in memory (None: row-major, and so
    # is what is left out at the end), or AUTO_LAYOUT. passes/entry_layouts.py makes arrays in that order of them.
    parameter_layouts: tuple[LayoutOrder | None, ...] = ()
    result_layouts: tuple[LayoutOrder | None, ...] = ()
    # How the whole program's arrays lie on its devices: fields of HloModuleProto, as the partitioner gave them.
    shardings: bytes = b""
    # Whether floats of at most 16 bits are rounded after every operation (passes/excess_precision.py).
    exact: bool = False
    # Of one execution of the program as it was written (passes/estimate_costs.py).
    costs: Costs | None = None
    # What identifies the program, its options, the compiler's version and the target; empty if nobody asked.
    fingerprint: str = ""

    def computations(self) -> list[Computation]:
        """Every computation once, callees before callers, the entry last."""
        order: list[Computation] = []
        seen: set[Computation] = set()
        stack: list[tuple[Computation, bool]] = [(self.entry, False)]
        while stack:
            computation, expanded = stack.pop()
            if expanded:
                order.append(computation)
            elif computation not in seen:
                seen.add(computation)
                stack.append((computation, True))
                callees = [c for i in computation.instructions for c in i.called]
                stack.extend((c, False) for c in reversed(callees) if c not in seen)
        return order

    def assign_names(self) -> None:
        """Give every computation, and every instruction of each, a name that is unique there."""
        taken: dict[str, int] = {}
        for computation in reversed(self.computations()):  # the entry keeps its name
            base = computation.name or "computation"
            count = taken.get(base)
            name = base
            if count is not None:
                while name in taken:
                    count += 1
                    name = f"{base}.{count}"
                taken[base] = count
            taken[name] = 0
            computation.name = name
            computation.assign_names()


# ------------------------------------------------------------------------------------------------------- helpers


def constant(
    value: object, dtype: DType | None = None, metadata: Metadata | None = None
) -> Instruction:
    """A constant from anything NumPy takes; the literal is copied, made row-major and read-only."""
    array = np.array(value, dtype=dtype.numpy if dtype else None, order="C")
    array.setflags(write=False)
    shape = Shape(dtypes.from_numpy(array.dtype), array.shape)
    return Instruction("constant", shape, attributes={"literal": array}, metadata=metadata)


def parameter(index: int, shape: AnyShape, name: str = "") -> Instruction:
    return Instruction(
        "parameter", shape, attributes={"index": index}, name=name or f"param_{index}"
    )


def broadcast(
    operand: Instruction, dims: Sequence[int], dimensions: Sequence[int] = ()
) -> Instruction:
    """``operand`` with dimension i placed at ``dimensions[i]`` of ``dims``; a scalar to every element by default."""
    shape = Shape(operand.dtype, tuple(dims))
    return Instruction(
        "broadcast", shape, (operand,), {"dimensions": tuple(dimensions)}, metadata=operand.metadata
    )


def get_tuple_element(operand: Instruction, index: int) -> Instruction:
    shape = operand.result_shapes[index]
    return Instruction(
        "get-tuple-element", shape, (operand,), {"index": index}, metadata=operand.metadata
    )
