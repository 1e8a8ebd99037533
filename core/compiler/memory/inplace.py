"""Which results of an instruction may be written over which operands."""

from __future__ import annotations

from typing import Any, Final

from ..ir.hlo import Instruction, Shape
from ..ir.patterns import UPDATES
from ..ir.registry import OPS


def must_share(instruction: Instruction) -> bool:
    """Whether the instruction's kernel only changes part of its result: the rest must be there
    already.
    """
    opcode = instruction.opcode
    if opcode == "fusion":
        kind = instruction.attributes["kind"]
        return kind in UPDATES or bool(instruction.attributes.get("in_place"))
    return opcode in UPDATES or (
        opcode == "custom-call" and bool(instruction.attributes["output_operand_aliases"])
    )


def in_place_operands(instruction: Instruction) -> list[tuple[int, ...]]:
    """For each result the operands in whose memory it may be written (if they are of one size, and
    die here).

    An operand is listed for a result only if each element is read, if at all, before or when the
    element at the same place of the result is written. For instructions with :func:`must_share`
    there is exactly one.
    """
    opcode = instruction.opcode
    count = len(instruction.result_shapes)
    if opcode == "fusion":
        kind = instruction.attributes["kind"]
        if kind in ("loop", "reduce", "row", "transpose"):
            return _fusion_in_place(instruction)
        if kind == "packed-dot":
            return _fusion_in_place(instruction) if _writes_once(instruction) else [()]
        if kind in UPDATES:
            (body,) = instruction.called
            target = body.root.operands[0]
            return [(target.attributes["index"],)]
        if kind == "while":
            updated = dict(instruction.attributes["in_place"])
            return [(updated[n],) if n in updated else () for n in range(count)]
    elif opcode == "packed-dot":
        return [(2,)] if _adds(instruction, 2) and _writes_once(instruction) else [()]
    elif opcode == "fft-pass":
        return [(0,)] if _transforms_in_place(instruction) else [()]
    elif opcode == "dynamic-update-slice":
        return [(0,)]
    elif opcode == "scatter":
        return [(n,) for n in range(count)]
    elif opcode == "custom-call":
        aliases = dict(instruction.attributes["output_operand_aliases"])
        return [(aliases[n],) if n in aliases else () for n in range(count)]
    elif opcode == "library-call" and instruction.attributes["name"] == "all-reduce":
        # Operand after operand: a value that is there twice is still read after it was written.
        values = [without_bitcasts(o) for o in instruction.operands]
        return [(n,) if values.count(v) == 1 else () for n, v in enumerate(values)]
    elif opcode == "library-call":
        if instruction.attributes["name"] in FACTORED:
            return _factored_in_place(instruction)
        operand = in_place_operand(instruction)
        return [(operand,)] if operand is not None else [()] * count
    return [()] * count


# Calls of LAPACK's that copy operands to results and go on there (core/runtime/library/lapack_*.cc): the operands of
# the first results.
FACTORED: Final = {
    "cholesky": (0,), "cholesky-gradient": (1,), "geqp3": (0, 1), "geqrf": (0,), "gees": (0,), "gehrd": (0,),
    "gesdd": (0,), "gesvd": (0,), "getrf": (0,), "gtsv": (0, 1, 2, 3), "orgqr": (0,), "ormqr": (2,), "potrf": (0,),
    "syevd": (0,), "sytrd": (0,), "triangular-solve": (1,), "tridiagonal-solve-perturbed": (3,), "trsm": (1,),
}  # fmt: skip
# Those of them that begin anew, with the operand, where many matrices at a time do not go; up to this order they may be
# done many at a time (matrix_lanes.h).
BEGIN_ANEW: Final = {"gesdd", "gesvd", "potrf", "syevd"}
_MOST_ORDER_IN_LANES: Final = 64


def _factored_in_place(call: Instruction) -> list[tuple[int, ...]]:
    name = call.attributes["name"]
    operands = FACTORED[name]
    if name in BEGIN_ANEW and max(call.operands[0].dims[-2:]) <= _MOST_ORDER_IN_LANES:
        operands = ()
    unused = len(call.result_shapes) - len(operands)
    return [*((n,) for n in operands), *(((),) * unused)]


def _transforms_in_place(fft: Instruction) -> bool:
    """Whether each unit of work reads all of its numbers before it writes their transforms to the same places."""
    config = fft.attributes["config"]
    if config["form"] != "complex":
        return False
    if "halves" in config:
        return True
    config = config.get("pass", config)
    # The last vector of a line may have numbers of the one before it, too.
    same = config["source"] == config["target"]
    return bool(same and config["sizes"][-1] % config["lanes"] == 0)


def _writes_once(product: Instruction) -> bool:
    """Whether no tile of a "packed-dot", or of a fusion of one, writes what another has written: it would read an
    operand that is overwritten. The last tiles are moved back to end with the result, but tiles of vectors leave out
    rows that the tile before has written (:mod:`...codegen.kernels.product_writes`).
    """
    if product.opcode == "fusion":
        (body,) = product.called
        product = next(i for i in body.instructions if i.opcode == "packed-dot")
    config: dict[str, Any] = product.attributes["config"]
    rows_once = not config["form"].is_matrix or config["m"] % config["rows"] == 0
    return rows_once and not config["n"] % config["width"]


def without_bitcasts(value: Instruction) -> Instruction:
    """What has the memory of ``value`` under its own name."""
    while value.opcode == "bitcast":
        value = value.operands[0]
    return value


# Where a value is read: at the kernel's own index, at that index without the reduced dimensions, or
# anywhere.
_FULL, _ROWS, _ELSEWHERE = 1, 2, 4


def _fusion_in_place(fusion: Instruction) -> list[tuple[int, ...]]:
    """Operands that a loop, reduce, row, transpose or packed product's fusion reads at the index it writes and
    nowhere else.

    These kernels compute all results of an index before they store any. A transpose kernel reads
    what it moves a tile ahead, and everything else as a loop does. A row kernel stores a row after
    all its reductions; a reduce kernel stores a reduced value after all that belongs to it, and
    reads every element of the whole space once. A packed product adds its third operand before it stores a tile.
    """
    (body,) = fusion.called
    reduce = next((i for i in body.instructions if i.opcode == "reduce"), None)
    full = body.results[0].dims if reduce is None else reduce.operands[0].dims
    rows: tuple[int, ...] | None = None
    if reduce is not None:
        reduced = reduce.attributes["dimensions"]
        rows = tuple([d for n, d in enumerate(full) if n not in reduced])
    read: dict[Instruction, int] = {}
    for root in body.results:
        read[root] = _FULL if root.dims == full else _ROWS
    is_row = fusion.attributes["kind"] == "row"
    for i in reversed(body.instructions):
        where = read.get(i, 0)
        if not where or i.opcode == "tuple":
            continue
        for position, operand in enumerate(i.operands):
            if i.opcode == "get-tuple-element":
                at = where
            elif i.opcode == "reduce":
                at = _FULL if position < len(i.operands) // 2 else _ELSEWHERE
            elif _adds(i, position) or (OPS[i.opcode].elementwise and operand.dims == i.dims):
                at = where
            elif (
                i.opcode == "broadcast"
                and is_row
                and where == _FULL
                and _is_prefix(i, operand, rows)
            ):
                at = _ROWS
            else:
                at = _ELSEWHERE
            read[operand] = read.get(operand, 0) | at
    parameters = [p for p in body.parameters if isinstance(p.shape, Shape)]
    result: list[tuple[int, ...]] = []
    for root in body.results:
        wanted = _FULL if root.dims == full else _ROWS
        result.append(
            tuple(
                p.attributes["index"]
                for p in parameters
                if read.get(p) == wanted and p.dims == root.dims and p.dtype.size == root.dtype.size
            )
        )
    return result


def _adds(i: Instruction, position: int) -> bool:
    """Whether ``i`` is a packed product that adds the operand at ``position`` to its sums, at its own index."""
    return (
        i.opcode == "packed-dot"
        and position == 2
        and i.attributes["config"].get("epilogue") == "add"
    )


def _is_prefix(i: Instruction, operand: Instruction, rows: tuple[int, ...] | None) -> bool:
    return operand.dims == rows and i.attributes["dimensions"] == tuple(range(len(operand.dims)))


def in_place_operand(call: Instruction) -> int | None:
    """The operand of a library call that its result may be written over, as core/runtime/library says."""
    if call.attributes["name"] != "gemm":
        return None
    if call.attributes["config"].get("epilogue", "").split()[-1:] != ["add"]:
        return None
    last = len(call.operands) - 1
    return last if call.operands[last] not in call.operands[:last] else None
