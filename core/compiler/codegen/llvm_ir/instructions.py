"""Instructions, blocks, functions and globals of the kernel IR: what :class:`.builder.Builder` makes.

They are data. A target that needs other instructions rewrites them by a table of rules
(:mod:`....targets.sycl.legalize`), and :mod:`.text` writes them down for LLVM, by a table too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from .values import Value, scalar_of

BINARY: Final = (
    *(
        "add",
        "sub",
        "mul",
        "udiv",
        "sdiv",
        "urem",
        "srem",
        "shl",
        "lshr",
        "ashr",
        "and",
        "or",
        "xor",
    ),
    *("fadd", "fsub", "fmul", "fdiv", "frem"),
)
CASTS: Final = (
    *("zext", "sext", "trunc", "fpext", "fptrunc", "sitofp", "uitofp", "fptosi", "fptoui"),
    *("bitcast", "ptrtoint", "inttoptr", "addrspacecast"),
)


class Instruction(NamedTuple):
    """An instruction. ``code`` is LLVM's name of it, or one of those below; ``result`` is None if it gives nothing;
    ``flags`` are LLVM's (``"contract"``, ``"nsw"``, ``"inbounds"``, of a call ``"alwaysinline"``).

    ========================================  ==============================================  =======================
    code                                      operands                                        ``detail``
    ========================================  ==============================================  =======================
    one of BINARY, ``fneg``, ``select``       the operands
    one of CASTS                              what is cast
    ``icmp``, ``fcmp``                        the two                                         predicate
    ``load``                                  address                                         alignment
    ``store``                                 value, address                                  alignment
    ``getelementptr``                         address, index                                  type of the elements
    ``alloca``                                none                                            (type, count, alignment)
    ``call``                                  arguments                                       name of the function
    ``gather``, ``masked load``               address(es), mask, what lanes without it get    alignment
    ``scatter``, ``masked store``             value, address(es), mask                        alignment
    ``any``                                   a vector of truth values: whether one is true
    ``extractelement``                        vector, lane
    ``insertelement``                         vector, value, lane
    ``shufflevector``                         two vectors                                     lanes; None: all lane 0
    ``extractvalue``                          aggregate                                       number of the element
    ``insertvalue``                           aggregate, value                                number of the element
    ``phi``                                   a value of each block before                    labels of these blocks
    ``br``                                    none, or the condition                          the labels
    ``switch``                                value                                           (default, (n, label)...)
    ``ret``                                   none, or the result
    ``fence``                                 none                                            the ordering
    ========================================  ==============================================  =======================
    """

    code: str
    result: Value | None
    operands: tuple[Value, ...]
    flags: str = ""
    detail: Any = None


@dataclass(slots=True)
class Block:
    label: str
    instructions: list[Instruction] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """A function.

    ``arrays``: for a kernel, which takes a table of arrays and the range of its work, the arrays in the table; None for
    any other function. ``inlined_lines``: of the text of functions that its calls say to inline.
    """

    name: str
    result: str
    arguments: list[Value]
    parameter_attributes: list[str]
    attributes: str
    linkage: str
    arrays: int | None = None
    blocks: list[Block] = field(default_factory=list)
    inlined_lines: int = 0
    # Names of all functions and intrinsics that it calls, and of the tables that it reads.
    references: dict[str, None] = field(default_factory=dict)
    # Whether a value of floats or a vector goes from one iteration of a loop to the next in a register, or is that of
    # one of two blocks.
    carries_values: bool = False
    body: str = ""  # its text without the first line, when it is complete
    lines: int = 0  # of the body, without the closing brace
    values: int = 0  # results of its instructions
    size: int = 0  # characters of the text
    digest: bytes = b""  # see Module.digest

    @property
    def is_internal(self) -> bool:
        return self.linkage == "internal"

    def has_scalar(self, scalar: str) -> bool:
        """Whether any value in it is of this scalar type, or is a vector of it."""
        return any(
            scalar_of(value.type) == scalar
            for block in self.blocks
            for i in block.instructions
            for value in (*i.operands, *((i.result,) if i.result else ()))
        )


class Global(NamedTuple):
    """An array of the module: a table of constants (each in LLVM's syntax, with its type), or memory that the
    work-items of a group share (``values`` is None).
    """

    name: str
    element: str
    length: int
    values: str | None
