"""The larger or smaller of two floats: NaN if either is, and of two zeros +0 for the maximum and -0 for the minimum, as
IEEE 754 has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...ir import hlo
from .. import llvm_ir
from ..llvm_ir import Value, lanes_of, scalar_of, vector

if TYPE_CHECKING:
    from ..generator import Generator

# The machine's own, as LLVM names them: {} is max or min.
_INTRINSICS: Final = {
    "<4 x float>": "llvm.x86.sse.{}.ps",
    "<2 x double>": "llvm.x86.sse2.{}.pd",
    "<8 x float>": "llvm.x86.avx.{}.ps.256",
    "<4 x double>": "llvm.x86.avx.{}.pd.256",
    "<16 x float>": "llvm.x86.avx512.{}.ps.512",
    "<8 x double>": "llvm.x86.avx512.{}.pd.512",
}
# The bits that two of three have, as vpternlog takes a function: bit n is its value for the three bits of n.
_MAJORITY: Final = sum(1 << n for n in range(8) if n.bit_count() >= 2)
_CURRENT_ROUNDING: Final = 4


def maximum(g: Generator, i: hlo.Instruction | None, o: list[Value]) -> Value:
    """The larger float, or NaN if there is one among the two."""
    return _extremum(g, "ogt", o)


def minimum(g: Generator, i: hlo.Instruction | None, o: list[Value]) -> Value:
    """The smaller float, or NaN if there is one among the two."""
    return _extremum(g, "olt", o)


def _extremum(g: Generator, predicate: str, o: list[Value]) -> Value:
    b = g.builder
    a, c = o
    if a.is_constant:
        a, c = c, a
    is_maximum = predicate == "ogt"
    if c.is_constant:
        if llvm_ir.is_float_zero(c, 1 if is_maximum else -1):  # it beats the other zero
            return b.select(b.fcmp("ugt" if is_maximum else "ult", a, c), a, c)
        return b.select(b.fcmp(predicate, c, a), c, a)
    # As the machine does it: the second if they are equal or one is NaN. So the two differ for zeros and NaN
    # alone: there the union of the bits is NaN if one is, and the sign must be in both (maximum) or in one
    # of them (minimum).
    bits = 64 if scalar_of(a.type) == "double" else 32
    integers = vector(f"i{bits}", lanes_of(a.type))
    of_machine = _has_majority(g, a.type)
    choose = _choose_in_registers if of_machine else _choose
    first = b.cast("bitcast", choose(g, predicate, c, a), integers)
    second = b.cast("bitcast", choose(g, predicate, a, c), integers)
    if is_maximum:
        all_but_sign = llvm_ir.integer(integers, (1 << (bits - 1)) - 1)
        majority = _majority_in_registers if of_machine else _majority
        either = majority(g, first, second, all_but_sign)
    else:
        either = b.binary("or", first, second)
    return b.cast("bitcast", either, a.type)


def _choose(g: Generator, predicate: str, x: Value, y: Value) -> Value:
    return g.builder.select(g.builder.fcmp(predicate, x, y), x, y)


def _majority(g: Generator, x: Value, y: Value, z: Value) -> Value:
    b = g.builder
    return b.binary("or", b.binary("and", x, y), b.binary("and", b.binary("or", x, y), z))


def _has_majority(g: Generator, type_: str) -> bool:
    """Whether AVX-512's instructions take vectors of the type."""
    if type_ not in _INTRINSICS:
        return False
    return g.target.has("avx512f" if _is_wide(type_) else "avx512vl")


def _is_wide(type_: str) -> bool:
    return _INTRINSICS[type_].endswith(".512")


def _choose_in_registers(g: Generator, predicate: str, x: Value, y: Value) -> Value:
    """As _choose. LLVM would see a choice of bits where x or y were bits before, and make a comparison, a mask
    and a blend of it.
    """
    name = _INTRINSICS[x.type].format("max" if predicate == "ogt" else "min")
    rounding = [llvm_ir.integer("i32", _CURRENT_ROUNDING)] if _is_wide(x.type) else []
    return g.builder.call(x.type, name, [x, y, *rounding])


def _majority_in_registers(g: Generator, x: Value, y: Value, z: Value) -> Value:
    """As _majority, in one instruction: LLVM makes three of it."""
    scalar, lanes = scalar_of(x.type), lanes_of(x.type)
    width = lanes * int(scalar[1:])
    name = f"llvm.x86.avx512.pternlog.{'q' if scalar == 'i64' else 'd'}.{width}"
    return g.builder.call(x.type, name, [x, y, z, llvm_ir.integer("i32", _MAJORITY)])
