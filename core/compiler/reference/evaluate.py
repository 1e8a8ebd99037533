"""A reference evaluator: HLO instructions on NumPy arrays.

Two uses. Constant folding asks for the value of one instruction (:func:`evaluate_instruction`);
tests run whole small modules, fused or not (:func:`evaluate`), and compare. It is written to be
obviously right, not fast: the only speed taken is NumPy's own. Semantics are those of XLA where the
HLO specification leaves a choice: integer division by zero gives all ones, a shift by the width or
more gives 0 (or the sign), out-of-bounds gather starts are clamped, scatters skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ..ir.errors import CompileError, of_instruction
from ..ir.hlo import Computation, Instruction, Module, Shape, TokenShape
from ..ir.registry import OPS, Absent
from . import NotEvaluatedError

Array = np.ndarray[Any, Any]
Observer = Callable[[Instruction, Sequence[Array], list[Array]], list[Array]]
TOKEN_VALUE: Final = np.zeros((0,), np.uint8)


_observer: Observer | None = None


@contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """Inside, ``observer`` is given each instruction with its operands and results, and gives the results to use.

    None: there is no observer. For one thread at a time.
    """
    global _observer
    previous, _observer = _observer, observer
    try:
        yield
    finally:
        _observer = previous


def evaluate(module: Module, arguments: Sequence[Array]) -> list[Array]:
    """The results of ``module`` on ``arguments``, one array a parameter with its shape and dtype."""
    return evaluate_computation(module.entry, [np.asarray(a) for a in arguments])


def evaluate_computation(computation: Computation, arguments: Sequence[Array]) -> list[Array]:
    """The results of a computation: one array for each of :attr:`Computation.results`."""
    values: dict[Instruction, list[Array]] = {}
    with np.errstate(all="ignore"):  # once: that takes as long as an operation on a small array
        for instruction in computation.instructions:
            if instruction.opcode == "parameter":
                values[instruction] = [arguments[instruction.attributes["index"]]]
            elif instruction.opcode == "get-tuple-element":
                of_tuple = values[instruction.operands[0]]
                values[instruction] = [of_tuple[instruction.attributes["index"]]]
            elif instruction.opcode == "tuple":
                values[instruction] = [values[o][0] for o in instruction.operands]
            else:
                operands = [values[o][0] for o in instruction.operands]
                values[instruction] = _evaluate(instruction, operands)
    return values[computation.root]


def evaluate_instruction(instruction: Instruction, operands: Sequence[Array]) -> list[Array]:
    """The results of one instruction, given one array for each operand.

    Raises CompileError (UNIMPLEMENTED) for an opcode that has no reference here, and for matrices that NumPy does not
    decompose and functions whose series does not converge.
    """
    with np.errstate(all="ignore"):
        return _evaluate(instruction, operands)


def _evaluate(instruction: Instruction, operands: Sequence[Array]) -> list[Array]:
    """The same where NumPy warns of nothing."""
    op = OPS[instruction.opcode]
    if isinstance(op.evaluate, Absent):
        raise of_instruction("UNIMPLEMENTED", "no reference evaluation", instruction)
    try:
        results = op.evaluate(instruction, *operands)
    # A matrix that is singular or not positive definite, or a series that does not converge.
    except (np.linalg.LinAlgError, NotEvaluatedError) as error:
        raise of_instruction("UNIMPLEMENTED", str(error), instruction) from None
    if op.elementwise:
        results = [results]
    shaped = [_shaped(r, s) for r, s in zip(results, instruction.result_shapes, strict=True)]
    return shaped if _observer is None else _observer(instruction, operands, shaped)


def can_evaluate(opcode: str) -> bool:
    """Whether :func:`evaluate_instruction` knows ``opcode``."""
    return not isinstance(OPS[opcode].evaluate, Absent)


def _shaped(result: Array, shape: Shape | TokenShape) -> Array:
    if isinstance(shape, TokenShape):
        return TOKEN_VALUE
    if (
        isinstance(result, np.ndarray)
        and result.dtype == shape.dtype.numpy
        and result.shape == shape.dims
        and result.flags.c_contiguous
    ):
        return result
    array = np.asarray(result).astype(shape.dtype.numpy, copy=False)
    if array.shape != shape.dims:
        array = np.broadcast_to(array, shape.dims)
    return np.ascontiguousarray(array).reshape(shape.dims)


def evaluate_elementwise(body: Computation, arguments: Sequence[Array]) -> list[Array]:
    """A scalar computation (a reduction's body) on arrays: as if run once for each index."""
    values: dict[Instruction, Any] = {}
    for i in body.instructions:
        if i.opcode == "parameter":
            values[i] = arguments[i.attributes["index"]]
        elif i.opcode == "constant":
            values[i] = i.attributes["literal"]
        elif i.opcode in ("broadcast", "reshape", "copy", "bitcast", "transpose"):
            values[i] = values[i.operands[0]]
        elif i.opcode == "tuple":
            values[i] = [values[o] for o in i.operands]
        elif i.opcode == "get-tuple-element":
            values[i] = values[i.operands[0]][i.attributes["index"]]
        elif i.opcode in ("call", "map"):
            results = evaluate_elementwise(i.called[0], [values[o] for o in i.operands])
            values[i] = results if len(i.result_shapes) > 1 else results[0]
        else:
            op = OPS[i.opcode]
            if not op.elementwise or isinstance(op.evaluate, Absent):
                raise of_instruction("UNIMPLEMENTED", "not an elementwise body", i)
            with np.errstate(all="ignore"):
                operands = [values[o] for o in i.operands]
                values[i] = np.asarray(op.evaluate(i, *operands)).astype(i.dtype.numpy, copy=False)
            if _observer is not None:
                (values[i],) = _observer(i, operands, [values[i]])
    root = values[body.root]
    return list(root) if body.root.opcode == "tuple" else [root]


def pad_array(
    a: Array, value: Array, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Array:
    dilated = [max(0, d + (d - 1) * n) for d, n in zip(a.shape, interior, strict=True)]
    big_dims = [
        max(0, d) + max(0, lo) + max(0, hi) for d, lo, hi in zip(dilated, low, high, strict=True)
    ]
    big = np.full(big_dims, value, a.dtype)
    place = tuple(
        slice(max(0, lo), max(0, lo) + d, n + 1)
        for lo, d, n in zip(low, dilated, interior, strict=True)
    )
    if a.size:
        big[place] = a
    crop = tuple(
        slice(max(0, -lo), max(max(0, -lo), d - max(0, -hi)))
        for lo, hi, d in zip(low, high, big_dims, strict=True)
    )
    return big[crop]


def fold(
    body: Computation, values: list[Array], initial: list[Array], there: Array | None = None
) -> list[Array]:
    """Combine along axis 0 of ``values``, neighbours in pairs: log(n) array operations keep the order of the elements.

    StableHLO lets a reduction choose the tree in which it combines elements, but not another order of them: the body
    need not be commutative. ``there``: which of the values count; None for all.
    """
    while values[0].shape[0] > 1:
        even = values[0].shape[0] // 2 * 2
        firsts, seconds = ([v[n:even:2] for v in values] for n in (0, 1))
        combined = evaluate_elementwise(body, firsts + seconds)
        combined = [np.broadcast_to(c, v.shape) for c, v in zip(combined, firsts, strict=True)]
        if there is not None:
            first, second = there[0:even:2], there[1:even:2]
            combined = [
                np.where(first & second, c, np.where(first, v, w))
                for c, v, w in zip(combined, firsts, seconds, strict=True)
            ]
            there = np.concatenate([first | second, there[even:]])
        values = [np.concatenate([c, v[even:]]) for c, v in zip(combined, values, strict=True)]
    if values[0].shape[0] == 0:
        return [np.broadcast_to(n, v.shape[1:]) for n, v in zip(initial, values, strict=True)]
    results = evaluate_elementwise(body, initial + [v[0] for v in values])
    if there is None:
        return results
    return [np.where(there[0], r, n) for r, n in zip(results, initial, strict=True)]


__all__ = [
    "CompileError",
    "can_evaluate",
    "evaluate",
    "evaluate_computation",
    "evaluate_elementwise",
    "evaluate_instruction",
]
