"""How often loops run."""

from __future__ import annotations

from .hlo import Instruction


def known_trip_count(loop: Instruction) -> int:
    """How many times a ``while`` runs if the program says so plainly, else -1.

    Known: a scalar integer state that starts at a constant, is advanced by a constant, and is
    compared with a constant.
    """
    condition, body = loop.called
    test = condition.results[0]
    if test.opcode != "compare":
        return -1
    a, b = test.operands
    direction = test.attributes["direction"]
    if a.opcode == "constant":
        a, b = b, a
        direction = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(direction, direction)
    if a.opcode != "parameter" or b.opcode != "constant" or not a.dtype.is_integer or a.dims:
        return -1
    index = a.attributes["index"]
    start = loop.operands[index]
    following = body.results[index]
    if start.opcode != "constant" or following.opcode not in ("add", "subtract"):
        return -1
    x, y = following.operands
    if x.opcode == "constant" and following.opcode == "add":
        x, y = y, x
    if x.opcode != "parameter" or x.attributes["index"] != index or y.opcode != "constant":
        return -1
    first, limit, step = (int(i.attributes["literal"][()]) for i in (start, b, y))
    if following.opcode == "subtract":
        step = -step
    return _count(first, limit, step, direction, a.dtype.bits, a.dtype.is_signed)


def _count(first: int, limit: int, step: int, direction: str, bits: int, signed: bool) -> int:
    if direction in ("LE", "GE"):
        limit += 1 if direction == "LE" else -1
    if direction in ("LT", "LE"):
        if first >= limit:
            return 0
        count = -(-(limit - first) // step) if step > 0 else -1
    elif direction in ("GT", "GE"):
        if first <= limit:
            return 0
        count = -(-(first - limit) // -step) if step < 0 else -1
    elif direction == "NE":
        distance = limit - first
        count = distance // step if step and distance % step == 0 and distance // step >= 0 else -1
    else:
        return -1
    if count < 0:
        return -1
    last = first + count * step  # the comparison is only right if the counter never wraps
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    return count if low <= last <= high else -1
