"""Sizes that depend on values: arrays of the bound's shape, and sizes as numbers of their own.

``set-dimension-size(x, n)`` says that only the first n elements along a dimension of ``x`` are there. This pass follows
such sizes through the program, as scalars beside the arrays, and leaves a program of static shapes in which

* elements past an array's end never reach a result: reductions, products, sorts, scatters, ... get them masked
  (:mod:`.table` has the rule of each instruction);
* sizes of loop states and of the branches' results are further elements of these;
* sizes of the program's results are further results, which ``Module.dynamic_results`` ties to their dimensions: whoever
  runs the program cuts its results by them;
* what holds only for some sizes (two arrays of one size are added, an element past the end is not read) is computed as
  a truth value and is a further result too: ``Module.size_checks`` says what to tell the user if it is false.

XLA's DynamicPadder is the model of the first three. It checks nothing, and reads past the end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..ir import dtypes
from ..ir.errors import of_instruction
from ..ir.hlo import (
    AnyShape,
    Computation,
    Instruction,
    Module,
    Shape,
    TokenShape,
    TupleShape,
    constant,
    get_tuple_element,
    parameter,
)
from ..ir.registry import OPS, Absent, Op, SizeRule
from ..passes.inline import inline_calls

# The size of each dimension of an array that is not its bound: an s32 scalar.
Sizes = Mapping[int, Instruction]
NONE: Final[Sizes] = {}

_SIZE: Final = Shape(dtypes.S32)
_TRUTH: Final = Shape(dtypes.PRED)
OPCODES: Final = frozenset(("set-dimension-size", "get-dimension-size", "dynamic-reshape"))
# Opcodes whose rules are asked even if no operand has such a size.
_CARRIERS: Final = OPCODES | {"while", "conditional"}
#: The rule of each op that has one of its own. ``table.py`` fills it.
RULES: Final[dict[str, SizeRule]] = {}
_ADVICE: Final = "compute it outside of the compiled function, or without jit_compile=True"


@dataclass(frozen=True, slots=True)
class Check:
    """A truth value that must hold, and what is wrong if it does not."""

    holds: Instruction
    message: str


class Scope:
    """One computation while it is rewritten: what its values have become, and their sizes."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.mapped: dict[Instruction, Instruction] = {}
        # The new results of an old instruction that has several.
        self.parts: dict[Instruction, list[Instruction]] = {}
        self.sizes: dict[Instruction, Sizes] = {}
        # Dimensions whose elements are the same at every index, or known for every index, so that an array of any size
        # may be computed with: those that a broadcast or an iota has made.
        self.boundless: dict[Instruction, frozenset[int]] = {}
        self.checks: list[Check] = []
        self.current: Instruction | None = None

    # ------------------------------------------------------------------------------------------------- building

    def add(self, instruction: Instruction) -> Instruction:
        """A new instruction at the end."""
        if self.current is not None and instruction.metadata is None:
            instruction.metadata = self.current.metadata
        self.instructions.append(instruction)
        return instruction

    def op(self, opcode: str, *operands: Instruction) -> Instruction:
        """An elementwise instruction of the operands' shape."""
        return self.add(Instruction(opcode, operands[-1].shape, operands))

    def number(self, value: int) -> Instruction:
        return self.add(constant(np.int32(value)))

    def broadcast(
        self, operand: Instruction, dims: Sequence[int], dimensions: Sequence[int] = ()
    ) -> Instruction:
        return self.add(
            Instruction(
                "broadcast",
                Shape(operand.dtype, tuple(dims)),
                (operand,),
                {"dimensions": tuple(dimensions)},
            )
        )

    def compare(
        self, direction: str, a: Instruction, b: Instruction, comparison_type: str = "SIGNED"
    ) -> Instruction:
        kind = {"direction": direction, "comparison_type": comparison_type}
        return self.add(Instruction("compare", Shape(dtypes.PRED, a.dims), (a, b), kind))

    def mask(self, dims: Sequence[int], sizes: Sizes) -> Instruction:
        """pred[dims]: whether an element is there."""
        whole: Instruction | None = None
        for dimension, size in sorted(sizes.items()):
            shape = Shape(dtypes.S32, tuple(dims))
            index = self.add(Instruction("iota", shape, (), {"dimension": dimension}))
            inside = self.compare("LT", index, self.broadcast(size, dims))
            whole = inside if whole is None else self.op("and", whole, inside)
        assert whole is not None
        return whole

    def masked(self, x: Instruction, sizes: Sizes, filler: Instruction) -> Instruction:
        """``x`` with the scalar ``filler`` in place of the elements that are not there."""
        if not sizes:
            return x
        return self.op("select", self.mask(x.dims, sizes), x, self.broadcast(filler, x.dims))

    def zero(self, dtype: dtypes.DType) -> Instruction:
        return self.add(constant(0, dtype))

    # ---------------------------------------------------------------------------------------------------- sizes

    def size(self, x: Instruction, dimension: int) -> Instruction:
        """The number of elements that are there along a dimension."""
        found = self.sizes.get(x, NONE).get(dimension)
        return self.number(x.dims[dimension]) if found is None else found

    def has(self, x: Instruction, sizes: Sizes) -> Instruction:
        """Note the sizes of a new array."""
        if sizes:
            self.sizes[x] = dict(sizes)
        return x

    def check(self, holds: Instruction, message: str) -> None:
        """The program's results are worth something only if ``holds``."""
        what = (
            str(self.current.metadata) if self.current is not None and self.current.metadata else ""
        )
        self.checks.append(Check(holds, f"{message}{f' ({what})' if what else ''}"))

    def unify(self, arrays: Sequence[tuple[Instruction, int]]) -> Instruction | None:
        """The one size of some dimensions that must have the same size; None if it is their bound."""
        found: Instruction | None = None
        for x, dimension in arrays:
            size = self.sizes.get(x, NONE).get(dimension)
            if found is None:
                found = size
            elif size is not None and size is not found:
                self.check(
                    self.compare("EQ", found, size),
                    "arrays whose sizes depend on values have different sizes",
                )
        if found is None:
            return None
        for x, dimension in arrays:
            static = dimension not in self.sizes.get(x, NONE)
            if static and dimension not in self.boundless.get(x, frozenset()):
                self.check(
                    self.compare("EQ", found, self.number(x.dims[dimension])),
                    f"an array whose size depends on values meets one of size {x.dims[dimension]}",
                )
        return found

    def refuse(self, instruction: Instruction, what: str) -> Exception:
        """The error for an instruction that cannot be given arrays of such sizes."""
        return of_instruction("UNIMPLEMENTED", f"{what}; {_ADVICE}", instruction)

    # ------------------------------------------------------------------------------------------------- rewriting

    def read(
        self, computation: Computation, dynamic: Sequence[frozenset[int]]
    ) -> list[Instruction]:
        """Rewrite a computation; ``dynamic`` are the parameters' dimensions that have sizes. Gives its results.

        The new computation's parameters are the old ones, then their sizes, parameter by parameter.
        """
        count = len(computation.parameters)
        given: list[tuple[Instruction, int]] = []
        for old in computation.parameters:
            new = self.add(parameter(old.attributes["index"], old.shape, old.name))
            self.mapped[old] = new
            given += [(new, d) for d in sorted(dynamic[old.attributes["index"]])]
        sizes: dict[Instruction, dict[int, Instruction]] = {}
        for n, (array, dimension) in enumerate(given):
            sizes.setdefault(array, {})[dimension] = self.add(parameter(count + n, _SIZE))
        self.sizes.update(sizes)
        for old in computation.instructions:
            if old.opcode != "parameter" and not (
                old.opcode == "tuple" and old is computation.root
            ):
                self._rewrite(old)
        root = computation.root
        if root.opcode != "tuple" and isinstance(root.shape, TupleShape):
            return self.parts[root]
        return [self.mapped[r] for r in computation.results]

    def _rewrite(self, old: Instruction) -> None:
        self.current = old
        if old.opcode == "get-tuple-element" and old.operands[0] in self.parts:
            self.mapped[old] = self.parts[old.operands[0]][old.attributes["index"]]
            return
        new = _rewritten(self, old, [self.mapped.get(o, o) for o in old.operands])
        if isinstance(old.shape, TupleShape):
            self.parts[old] = new
        else:
            (self.mapped[old],) = new

    def computation(self, name: str, results: Sequence[Instruction]) -> Computation:
        """The new computation with these results."""
        parameters = [i for i in self.instructions if i.opcode == "parameter"]
        return Computation.of_results(name, parameters, [*parameters, *self._rest()], results)

    def _rest(self) -> list[Instruction]:
        return [i for i in self.instructions if i.opcode != "parameter"]

    def all_checks(self) -> Instruction:
        """Whether every check of this computation holds."""
        whole = self.checks[0].holds if self.checks else self.add(constant(np.True_))
        for check in self.checks[1:]:
            whole = self.op("and", whole, check.holds)
        return whole

    def with_sizes(
        self, results: Sequence[Instruction], dynamic: Sequence[frozenset[int]]
    ) -> list[Instruction]:
        """``results``, and after them the sizes of their dimensions in ``dynamic``."""
        sizes = [
            self.size(result, d)
            for result, dimensions in zip(results, dynamic, strict=True)
            for d in sorted(dimensions)
        ]
        return [*results, *sizes]

    def take_apart(
        self, whole: Instruction, dynamic: Sequence[frozenset[int]]
    ) -> tuple[list[Instruction], Instruction | None]:
        """The results of an instruction that calls computations of :meth:`with_sizes`, and whether checks held."""
        parts = [
            self.add(get_tuple_element(whole, n)) if isinstance(whole.shape, TupleShape) else whole
            for n in range(len(whole.result_shapes))
        ]
        position = len(dynamic)
        for array, dimensions in zip(parts, dynamic, strict=False):
            sizes = {}
            for d in sorted(dimensions):
                sizes[d] = parts[position]
                position += 1
            self.has(array, sizes)
        return parts[: len(dynamic)], parts[position] if position < len(parts) else None


def _rewritten(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """The results of ``old`` on new operands."""
    op = OPS[old.opcode]
    if old.opcode not in _CARRIERS and not any(o in scope.sizes for o in operands):
        return _static(scope, old, operands)
    rule = rule_of(op)
    if rule is None:
        raise scope.refuse(
            old, "an operand has a size that depends on values, which this operation cannot take"
        )
    return rule(scope, old, operands)


def rule_of(op: Op) -> SizeRule | None:
    """What becomes of an instruction of ``op`` whose operands have such sizes; None if there is no rule."""
    if op.sizes is not None:
        return None if isinstance(op.sizes, Absent) else op.sizes
    return RULES.get("copy" if op.elementwise and op.name not in RULES else op.name)


def same(
    scope: Scope, old: Instruction, operands: Sequence[Instruction], sizes: Sizes = NONE
) -> list[Instruction]:
    """``old`` on other operands; every result has ``sizes``."""
    new = scope.add(old.replace(operands=operands))
    if not isinstance(new.shape, TupleShape):
        return [scope.has(new, sizes)]
    return [
        scope.has(scope.add(get_tuple_element(new, n)), sizes)
        for n in range(len(new.result_shapes))
    ]


def _static(scope: Scope, old: Instruction, operands: Sequence[Instruction]) -> list[Instruction]:
    results = same(scope, old, operands)
    (new, *others) = results
    if others or isinstance(new.shape, TokenShape):
        return results
    known = _boundless(scope, new)
    if known:
        scope.boundless[new] = known
    return results


def _boundless(scope: Scope, new: Instruction) -> frozenset[int]:
    """The dimensions along which an array may be taken for one of any size (``Scope.boundless``)."""
    if new.opcode == "broadcast":
        placed = new.attributes["dimensions"]
        kept = scope.boundless.get(new.operands[0], frozenset())
        bound = {d for n, d in enumerate(placed) if n not in kept}
        return frozenset(range(len(new.dims))) - bound
    if new.opcode == "iota":
        return frozenset(range(len(new.dims)))
    if new.opcode == "reshape":
        (x,) = new.operands
        whole = len(scope.boundless.get(x, ())) == len(x.dims)
        return frozenset(range(len(new.dims))) if whole else frozenset()
    if new.opcode == "transpose":
        kept = scope.boundless.get(new.operands[0], frozenset())
        return frozenset(n for n, d in enumerate(new.attributes["dimensions"]) if d in kept)
    if new.opcode == "slice":
        return scope.boundless.get(new.operands[0], frozenset())
    if new.is_elementwise or new.opcode == "copy":
        arrays = [o for o in new.operands if o.dims == new.dims]
        return frozenset.intersection(
            frozenset(range(len(new.dims))), *(scope.boundless.get(o, frozenset()) for o in arrays)
        )
    return frozenset()


def dynamic_dimensions(scope: Scope, arrays: Sequence[Instruction]) -> list[frozenset[int]]:
    """The dimensions of each array that have sizes."""
    return [frozenset(scope.sizes.get(a, NONE)) for a in arrays]


def resolve_dynamic_sizes(module: Module) -> Module:
    """The module without instructions on sizes; itself if it has none. Raises CompileError for what has no rule."""
    if not any(i.opcode in OPCODES for c in module.computations() for i in c.instructions):
        return module
    module = inline_calls(module)
    entry = module.entry
    scope = Scope()
    results = scope.read(entry, [frozenset()] * len(entry.parameters))
    scope.current = None
    hidden: dict[Instruction, int] = {}

    def place(value: Instruction) -> int:
        return hidden.setdefault(value, len(results) + len(hidden))

    dynamic = []
    for n, result in enumerate(results):
        for dimension, size in sorted(scope.sizes.get(result, NONE).items()):
            if any(i == n for i, _, _ in module.input_output_aliases):
                raise scope.refuse(
                    result, "a variable cannot take a value of a size that depends on values"
                )
            dynamic.append((n, dimension, place(size)))
    checks = [(place(check.holds), check.message) for check in scope.checks]
    kinds = module.result_memory_kinds
    return replace(
        module,
        entry=scope.computation(entry.name, [*results, *hidden]),
        visible_results=len(results),
        dynamic_results=tuple(dynamic),
        size_checks=tuple(checks),
        result_memory_kinds=(*kinds, *("device" for _ in hidden)) if kinds else (),
    )


# ------------------------------------------------------------------------------------------------- control flow


def conditional(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Each branch gives the sizes that some branch's results have, and whether its checks hold."""
    branches, new_operands, counts = [], [operands[0]], []
    start = 1
    for branch, count in zip(old.called, old.attributes["operand_counts"], strict=True):
        arguments = operands[start : start + count]
        start += count
        dynamic = dynamic_dimensions(scope, arguments)
        inner = Scope()
        branches.append((branch.name, inner, inner.read(branch, dynamic)))
        given = scope.with_sizes(arguments, dynamic)
        new_operands += given
        counts.append(len(given))
    number = len(old.result_shapes)
    every = [dynamic_dimensions(inner, results) for _, inner, results in branches]
    union = [frozenset().union(*(of[n] for of in every)) for n in range(number)]
    messages = [check.message for _, inner, _ in branches for check in inner.checks]
    called = []
    for name, inner, results in branches:
        inner.current = None
        results = inner.with_sizes(results, union)
        if messages:
            results.append(inner.all_checks())
        called.append(inner.computation(name, results))
    whole = _call(
        scope, "conditional", old, new_operands, called, {"operand_counts": tuple(counts)}
    )
    parts, holds = scope.take_apart(whole, union)
    if holds is not None:
        scope.check(holds, messages[0])
    return parts


def while_loop(
    scope: Scope, old: Instruction, operands: Sequence[Instruction]
) -> list[Instruction]:
    """Sizes that a state's element has at some time become state, and whether all checks have held so far."""
    condition, body = old.called
    dynamic = dynamic_dimensions(scope, operands)
    while True:
        inner = Scope()
        results = inner.read(body, dynamic)
        grown = [a | b for a, b in zip(dynamic, dynamic_dimensions(inner, results), strict=True)]
        if grown == dynamic:
            break
        dynamic = grown
    messages = [check.message for check in inner.checks]
    inner.current = None
    results = inner.with_sizes(results, dynamic)
    state = scope.with_sizes(operands, dynamic)
    tested = Scope()
    predicate = tested.read(condition, dynamic)
    if tested.checks:
        raise scope.refuse(old, "the loop's condition reads an array whose size depends on values")
    if messages:
        number = len(state)
        so_far = inner.add(parameter(number, _TRUTH))
        results.append(inner.op("and", so_far, inner.all_checks()))
        state.append(scope.add(constant(np.True_)))
        tested.add(parameter(number, _TRUTH))
    called = (
        tested.computation(condition.name, predicate),
        inner.computation(body.name, results),
    )
    whole = _call(scope, "while", old, state, called, old.attributes)
    parts, holds = scope.take_apart(whole, dynamic)
    if holds is not None:
        scope.check(holds, messages[0])
    return parts


def _call(
    scope: Scope,
    opcode: str,
    old: Instruction,
    operands: Sequence[Instruction],
    called: Sequence[Computation],
    attributes: Mapping[str, object],
) -> Instruction:
    shapes = tuple(r.shape for r in called[-1].results)
    shape: AnyShape = shapes[0] if len(shapes) == 1 else TupleShape(shapes)  # type: ignore[arg-type]
    if len(shapes) == 1 and isinstance(old.shape, TupleShape):
        shape = old.shape
    return scope.add(
        Instruction(opcode, shape, operands, attributes, called, old.name, old.metadata)
    )
