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
* Opcode names and attribute names are HLO's. Each op is registered in :mod:`..ops`, with what its attributes hold and
  with its rules; :mod:`.verifier` says what a valid instruction is.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from . import dtypes
from .dtypes import DType
from .registry import OPS

if TYPE_CHECKING:
    from tripont.core.schema.artifact import Costs

# The dimensions of an array in the order of its memory, fastest first, as XLA's minor_to_major.
LayoutOrder = tuple[int, ...]
# A layout that is for the compiler to choose.
AUTO_LAYOUT: Final[LayoutOrder] = (-1,)


class Shape(NamedTuple):
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
        return _written(self.dtype, self.dims)


@functools.lru_cache(1 << 12)
def _written(dtype: DType, dims: tuple[int, ...]) -> str:
    return f"{dtype.name}[{','.join(map(str, dims))}]"


def strides_of(dims: Sequence[int], order: Sequence[int] | None = None) -> list[int]:
    """How far apart neighbours along each dimension of a dense array are, in elements.

    ``order``: the dimensions as they lie in memory, the minor one last; row-major if it is None.
    """
    strides = [0] * len(dims)
    stride = 1
    for d in reversed(order if order is not None else range(len(dims))):
        strides[d] = stride
        stride *= dims[d]
    return strides


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


class Metadata(NamedTuple):
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

    @property
    def sides(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """For each operand its batch dimensions and those that are contracted."""
        return (self.lhs_batch, self.lhs_contracting), (self.rhs_batch, self.rhs_contracting)


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


# --------------------------------------------------------------------------------------------------------- graph


_new: Final = object.__new__


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
        return OPS[self.opcode].elementwise

    @property
    def has_side_effect(self) -> bool:
        if not self.called and self.opcode != "custom-call":  # most
            return OPS[self.opcode].side_effect
        stack = [self]
        while stack:
            i = stack.pop()
            if i.opcode == "custom-call":
                if i.attributes["has_side_effect"]:
                    return True
                continue
            if OPS[i.opcode].side_effect:
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

    def derive(
        self,
        opcode: str,
        operands: Sequence[Instruction],
        attributes: Mapping[str, Any] | None = None,
        called: Sequence[Computation] = (),
        *,
        shape: AnyShape | None = None,
    ) -> Instruction:
        """Another instruction from the same place of the user's program, by default of the same shape."""
        shape = self.shape if shape is None else shape
        return Instruction(opcode, shape, operands, attributes, called, "", self.metadata)

    def with_operands(
        self, operands: Sequence[Instruction], called: Sequence[Computation] | None = None
    ) -> Instruction:
        """The instruction with these operands and callees: itself if it has them already."""
        operands = tuple(operands)
        if operands == self.operands and (called is None or tuple(called) == self.called):
            return self
        return self.on(operands, called)

    def on(
        self, operands: Sequence[Instruction], called: Sequence[Computation] | None = None
    ) -> Instruction:
        """A copy on other operands, which calls the same computations or ``called``."""
        # Most instructions are made here: field by field takes less than a call with all of them.
        new = _new(Instruction)
        new.opcode = self.opcode
        new.shape = self.shape
        new.operands = tuple(operands)
        new.attributes = self.attributes
        new.called = self.called if called is None else tuple(called)
        new.name = self.name
        new.metadata = self.metadata
        return new

    def __repr__(self) -> str:
        operands = ", ".join(o.name or o.opcode for o in self.operands)
        return f"%{self.name or '?'} = {self.shape} {self.opcode}({operands})"


class Computation:
    """Parameters, instructions in dependency order (parameters included), and the instruction that is the result."""

    __slots__ = ("_callees", "_opcodes", "instructions", "key", "name", "parameters", "root")

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
        self._callees: tuple[Computation, ...] | None = None
        self._opcodes: frozenset[str] | None = None
        self.key: Hashable | None = None  # see fusion/fused.py: computation_key

    @property
    def callees(self) -> tuple[Computation, ...]:
        """The computations that the instructions call, each once, in order."""
        if self._callees is None:
            called = [c for i in self.instructions if i.called for c in i.called]
            self._callees = tuple(dict.fromkeys(called))
        return self._callees

    @property
    def opcodes(self) -> frozenset[str]:
        """The opcodes of the instructions."""
        if self._opcodes is None:
            self._opcodes = frozenset([i.opcode for i in self.instructions])
        return self._opcodes

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

    @staticmethod
    def of_results(
        name: str,
        parameters: Sequence[Instruction],
        instructions: Sequence[Instruction],
        results: Sequence[Instruction],
    ) -> Computation:
        """A computation of ``instructions``, parameters among them, in their order. Several ``results`` become a tuple
        behind them.
        """
        if len(results) == 1:
            return Computation(name, parameters, instructions, results[0])
        root = Instruction("tuple", TupleShape(tuple(r.shape for r in results)), results)  # type: ignore[misc]
        return Computation(name, parameters, [*instructions, root], root)


def topological_order(
    roots: Iterable[Instruction], among: Container[Instruction] | None = None
) -> list[Instruction]:
    """All instructions that ``roots`` depend on, operands first. No recursion, linear time.

    With ``among``, only instructions of that set, and of those only what a path inside the set leads to: the order of a
    few instructions in a large program costs no walk through the program.
    """
    order: list[Instruction] = []
    done: set[Instruction] = set()
    for root in roots:
        stack: list[tuple[Instruction, Iterator[Instruction]]] = []
        if root not in done and (among is None or root in among):
            done.add(root)
            stack.append((root, iter(root.operands)))
        while stack:
            instruction, operands = stack[-1]
            for operand in operands:
                if operand not in done and (among is None or operand in among):
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
    # What sizes/resolve.py has made of sizes that depend on values. The first visible_results results are the
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
    # Whether collectives may run beside other work (passes/overlap_collectives.py).
    overlaps: bool = True
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
                stack += [(c, False) for c in reversed(computation.callees) if c not in seen]
        return order

    def has(self, *opcodes: str) -> bool:
        """Whether an instruction of a computation has one of these opcodes."""
        return not all(c.opcodes.isdisjoint(opcodes) for c in self.computations())

    def all_of(self, opcode: str) -> list[Instruction]:
        """The instructions of this opcode, of callees before those of callers."""
        among = [c for c in self.computations() if opcode in c.opcodes]
        return [i for c in among for i in c.instructions if i.opcode == opcode]

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
    return operand.derive("broadcast", (operand,), {"dimensions": tuple(dimensions)}, shape=shape)


def get_tuple_element(operand: Instruction, index: int) -> Instruction:
    shape = operand.result_shapes[index]
    return operand.derive("get-tuple-element", (operand,), {"index": index}, shape=shape)
