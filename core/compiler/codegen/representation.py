"""How an element of each dtype sits in memory and in registers.

| dtype                  | memory           | registers                                    |
|------------------------|------------------|----------------------------------------------|
| pred                   | i8, 0 or 1       | i1                                           |
| s8 ... u64             | iN               | iN (signedness is the operation's)           |
| s2, s4, u2, u4         | i8               | i8, sign- or zero-extended from its own bits |
| f32, f64               | float, double    | float, double                                |
| f16, bf16, f8*, f6*, f4* | i16, i16, i8   | float                                        |
| c64, c128              | two components   | :class:`Complex` of float or double          |

Small floats are widened when loaded and rounded when stored, so a fusion computes them in f32: more exact than rounding
after every operation, and faster. An explicit ``convert`` or ``reduce-precision`` still rounds
(:mod:`.elements.conversion`), and so do operations whose result jumps (``floor``, ``compare``, conversion to an
integer): 1.5 * 1.333 is 2 in f16. Those of less than 8 bits, which have no infinity and no NaN, are rounded after every
operation, and a register of a type without a negative zero (f8*fnuz) holds none.

A register value is a scalar when it is the same for all lanes, else a vector; :func:`unify` makes operands agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from ..ir import dtypes
from ..ir.dtypes import DType
from . import llvm_ir
from .llvm_ir import Value


class Complex(NamedTuple):
    """A complex register value: two components of one LLVM type."""

    real: Value
    imag: Value


Element = Value | Complex

_FLOATS: Final = {dtypes.F32: "float", dtypes.F64: "double"}


def register_type(dtype: DType) -> str:
    """The LLVM scalar type that an element (or a component of a complex one) is computed in."""
    dtype = dtype.component
    if dtype.kind == "pred":
        return "i1"
    if dtype.is_integer:
        return f"i{max(dtype.bits, 8)}"
    return _FLOATS.get(dtype, "float")


def memory_type(dtype: DType) -> str:
    """The LLVM scalar type that an element (or a component of a complex one) is loaded and stored as."""
    dtype = dtype.component
    if dtype in _FLOATS:
        return _FLOATS[dtype]
    return f"i{dtype.size * 8}"


def lanes(element: Element) -> int:
    """The number of lanes of a register value; 1 for a scalar."""
    return llvm_ir.lanes_of(element[0].type if isinstance(element, Complex) else element.type)


def components(element: Element) -> tuple[Value, ...]:
    """The LLVM values of an element: one, or two of a complex one."""
    return tuple(element) if isinstance(element, Complex) else (element,)


def map_components(function: Callable[..., Value], *elements: Element) -> Element:
    """Apply a function of LLVM values to the components of elements that are all complex or all real."""
    if isinstance(elements[0], Complex):
        return Complex(function(*(e[0] for e in elements)), function(*(e[1] for e in elements)))
    return function(*elements)


def literal(dtype: DType, value: object) -> Element:
    """A scalar constant of ``dtype`` from a NumPy scalar."""
    type_ = register_type(dtype)
    if dtype.is_complex:
        number = complex(value)  # type: ignore[call-overload]
        return Complex(llvm_ir.floating(type_, number.real), llvm_ir.floating(type_, number.imag))
    if dtype.kind == "pred":
        return llvm_ir.TRUE if value else llvm_ir.FALSE
    if dtype.is_integer:
        return llvm_ir.integer(type_, int(value))  # type: ignore[call-overload]
    return llvm_ir.floating(type_, float(value))  # type: ignore[arg-type]


def unify(splat: Callable[[Value, int], Value], operands: Sequence[Element]) -> list[Element]:
    """The operands with the scalars among them splat, if there is a vector among them."""
    count = max(map(lanes, operands))
    if count == 1:
        return list(operands)
    return [
        o if lanes(o) == count else map_components(lambda v: splat(v, count), o) for o in operands
    ]
