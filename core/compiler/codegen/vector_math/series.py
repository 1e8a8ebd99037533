"""What functions that sum series share: calls of functions of the module, and float computed in double."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value, mangle
from .arithmetic import Arithmetic, Pair
from .branches import function_of
from .exponential import exp

# Terms of relative size less than this are nothing. Float in double has fewer digits to keep.
NOTHING: Final = {"float": 2.0**-23, "double": 2.0**-52, "float in double": 2.0**-32}
_MOST_STEPS: Final = {"float": 2000, "double": 10000, "float in double": 10000}


class Precision(Arithmetic):
    """Arithmetic, and how much of a series counts."""

    def __init__(self, m: Arithmetic, of_float: bool) -> None:
        super().__init__(m.builder, m.target, m.type)
        kind = "float in double" if of_float else m.scalar
        self.of_float = of_float
        self.nothing = NOTHING[kind]
        self.most_steps = _MOST_STEPS[kind]


def called(
    builder: Builder,
    target: Target,
    name: str,
    compute: Callable[..., Value],
    *arguments: Value,
) -> Value:
    """A call of the module's function of that name, ``compute(m, *arguments)``: float in double if the target has it.

    There is a lot of code in such a function, and time passes in its loops.
    """
    m = Arithmetic(builder, target, arguments[0].type)
    function = f"tripont.{name}.{mangle(m.type)}"
    if function not in builder.module.functions:
        function_of(m, function, len(arguments), lambda n, *v: _widened(n, compute, v), "noinline")
    return builder.call(m.type, function, arguments)


def _widened(m: Arithmetic, compute: Callable[..., Value], arguments: tuple[Value, ...]) -> Value:
    if m.is_double or not m.target.has_double:
        return compute(Precision(m, False), *arguments)
    b, wide = m.builder, llvm_ir.vector("double", m.lanes)
    inner = Precision(Arithmetic(b, m.target, wide), True)
    value = compute(inner, *[b.cast("fpext", v, wide) for v in arguments])
    return b.cast("fptrunc", value, m.type)


def exp_of_pair(m: Arithmetic, x: Pair) -> Value:
    """e^(x.high + x.low)."""
    value = exp(m.builder, m.target, x.high)
    return m.fma(value, x.low, value)
