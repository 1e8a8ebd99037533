"""The kernel IR: what element generators and kernel emitters write, and what targets compile.

It is LLVM's IR as data. :class:`Builder` makes :class:`Instruction` after :class:`Instruction`, whose operands are
:class:`Value`; a :class:`Module` has the functions. The text that LLVM reads is made once, when a function is complete
(:mod:`.text`), and nobody reads that text again: a target that cannot use an instruction rewrites the data.

llvmlite's IR builder makes a Python object an instruction, too, but several times slower; llvmlite only parses and
compiles the text here.
"""

from .builder import Builder
from .instructions import Block, Function, Global, Instruction
from .module import Closed, Module
from .values import (
    FALSE,
    POISON,
    TRUE,
    Constant,
    Value,
    aggregate_type,
    floating,
    i64,
    integer,
    is_float_zero,
    lane_numbers,
    lanes_constant,
    lanes_of,
    mangle,
    poison,
    scalar_of,
    vector,
    zero,
)

__all__ = [
    "FALSE", "POISON", "TRUE", "Block", "Builder", "Closed", "Constant", "Function", "Global", "Instruction", "Module",
    "Value", "aggregate_type", "floating", "i64", "integer", "is_float_zero", "lane_numbers", "lanes_constant",
    "lanes_of", "mangle", "poison", "scalar_of", "vector", "zero",
]  # fmt: skip
