"""Products of which a mask by positions leaves a part: they are generated, because the rest is not summed then."""

from __future__ import annotations

from typing import Final

from ...codegen.kernels.position_ranges import Bounds, Ranges
from ...ir.hlo import Computation, Instruction

_MOST_STEPS: Final = 8  # from a product to its mask
_MOST_LEFT: Final = 0.8  # of a product's elements: a library may be faster by as much


def masked_products(computation: Computation) -> frozenset[Instruction]:
    """The dots of which a good part of the elements is read by nobody."""
    products = [i for i in computation.instructions if i.opcode == "dot" and len(i.dims) >= 2]
    if not products:
        return frozenset()
    users, results = computation.users(), set(computation.results)
    return frozenset(p for p in products if _is_masked(p, users, results))


def _is_masked(
    product: Instruction, users: dict[Instruction, list[Instruction]], results: set[Instruction]
) -> bool:
    rank = len(product.dims)
    dims, i = tuple(range(rank)), product
    for _ in range(_MOST_STEPS):
        readers = set(users[i])
        if i in results or len(readers) != 1:
            return False
        (reader,) = readers
        if not reader.is_elementwise or reader.dims != product.dims:
            return False
        if reader.opcode == "select":
            condition, yes, no = reader.operands
            if condition.dims != product.dims or yes is no:
                return False
            ranges = Ranges()
            Bounds(ranges, rank - 2, rank - 1).add(condition, dims, yes is i)
            if ranges.any:
                return ranges.share(*product.dims[-2:]) <= _MOST_LEFT
        i = reader
    return False
