"""How much effort the code of a module gets: full effort up to a length of its text.

Ten thousand different operations are a loop that somebody's program unrolled, as a rule. What comes behind them is
written as short as it can be (functions are called, loops are not unrolled) and compiled quickly.
"""

from __future__ import annotations

from .llvm_ir import Module

# Characters of IR that get full effort, about 10,000 different operations of a program. What comes behind takes a
# quarter of the time to write and to compile. Over arrays in the nearest cache its loops take up to half longer; a
# program of small arrays is as fast or faster, for so much code does not fit the caches.
CAREFUL = 4 << 20

# Behind as many functions, transposes are written shorter (kernels/transposes.py).
MANY = 64


def is_careful(module: Module) -> bool:
    """Whether what is written into ``module`` now is worth full effort."""
    return module.size <= CAREFUL


def has_many(module: Module) -> bool:
    """Whether so many functions stand in ``module`` that what each kind of code adds counts."""
    return len(module.functions) >= MANY


def same_after(module: Module, size: int, functions: int) -> bool:
    """Whether the answers of this file are the same when ``functions`` more of ``size`` characters are in ``module``,
    or were before (negative numbers).
    """
    careful = module.size + size <= CAREFUL
    many = len(module.functions) + functions >= MANY
    return careful == is_careful(module) and many == has_many(module)
