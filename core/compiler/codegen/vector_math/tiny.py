"""Arguments so near to 0 that a function is the first term of its series there.

The series' other terms would be denormal numbers or less than any number, and Intel's CPUs finish each operation with
such an operand or result in microcode, some 300 cycles a vector: a function would take 10 to 30 times as long. So the
functions take the series of 0 there, by a choice right behind an instruction with which AVX-512 makes it for nothing.
"""

from __future__ import annotations

from typing import Final

from ..llvm_ir import Value
from .arithmetic import Arithmetic

# The square of such an argument is less than a 2^16th of a unit in the last place of 1, and what is greater has
# squares and cubes of which the second words of a double-word number are normal.
_SQUARE: Final = {"float": 2.0**-20, "double": 2.0**-70}
# The argument itself is less than a 16th (float) or 256th (double) of such a unit.
_LINEAR: Final = {"float": 2.0**-28, "double": 2.0**-61}


def is_ordinary(m: Arithmetic, x: Value, *, odd: bool) -> Value:
    """Whether x is not tiny: whether the second term of its series may count. NaN is ordinary.

    That term, divided by the first one, is of the size of the square of x (``odd``), or of x itself.
    """
    return m.compare("uge", m.absolute(x), (_SQUARE if odd else _LINEAR)[m.scalar])
