"""A module of the kernel IR: functions, declarations and tables."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from . import text
from .instructions import Function, Global
from .values import Value


@dataclass(frozen=True, slots=True)
class Closed:
    """A function with all that it uses, which another module of the same target can take (:meth:`Module.take`).

    ``functions``: internal ones in the order in which they were first needed, then the function itself.
    """

    functions: tuple[Function, ...]
    tables: tuple[Global, ...]
    declarations: tuple[tuple[str, str, tuple[str, ...]], ...]

    @property
    def size(self) -> int:
        """Characters of all texts."""
        return sum(f.size for f in self.functions) + sum(len(t.values or "") for t in self.tables)


class Module:
    """Functions, declarations and tables of one LLVM module."""

    # Whether the instructions of functions are kept when they have been written down: for targets that rewrite them.
    keeps_instructions: ClassVar[bool] = False
    # Whether functions hide conversions from LLVM that would lose signs of zeros by them (see :mod:`.signs`).
    hides_conversions: ClassVar[bool] = True
    # Whether masked stores are as fast as others (see :mod:`.stores`).
    masks_stores: bool = True

    def __init__(self, triple: str = "", data_layout: str = "") -> None:
        self.header = [f'target datalayout = "{data_layout}"'] if data_layout else []
        if triple:
            self.header.append(f'target triple = "{triple}"')
        self.globals: dict[str, Global] = {}
        self.functions: dict[str, Function] = {}  # those of this module, in the order of writing
        self.size = 0  # characters of the functions
        # Result and argument types of intrinsics, imported functions and some of this module's own.
        self.declarations: dict[str, tuple[str, tuple[str, ...]]] = {}
        self.attributes: dict[str, int] = {}
        self.launched: set[str] | None = None  # functions called from outside, once that is known

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Declare an intrinsic or an imported function once; not needed for functions that this module defines."""
        if name not in self.declarations:
            self.declarations[name] = result, tuple(arguments)

    def add(self, function: Function) -> None:
        """Take a function that is complete, and write it down."""
        function.body = text.body_of(function.blocks)
        function.lines = sum(1 + len(block.instructions) for block in function.blocks)
        self.functions[function.name] = function
        function.size = len(self._function(function, function.linkage))
        self.size += function.size
        if not self.keeps_instructions:
            function.blocks = []

    def closed(self, name: str) -> Closed:
        """The function ``name`` with all that it uses."""
        functions = self._reached([name])
        used = dict.fromkeys(name for function in functions for name in function.references)
        tables = tuple(self.globals[name] for name in used if name in self.globals)
        declared = [(n, *self.declarations[n]) for n in used if n not in self.globals]
        return Closed(tuple(functions), tables, tuple(declared))

    def take(self, closed: Closed, name: str) -> None:
        """Add a function of another module, as ``name``, and those that it uses, where they are not there yet."""
        for used, result, arguments in closed.declarations:
            self.declare(used, result, arguments)
        for table in closed.tables:
            self.globals.setdefault(table.name, table)
        *helpers, function = closed.functions
        longer = len(name) - len(function.name)
        digest = function.digest
        for helper in helpers:
            there = self.functions.get(helper.name, helper)
            if there.body != helper.body or there.attributes != helper.attributes:
                digest = b""  # what it means depends on what it uses
        own = replace(function, name=name, size=function.size + longer, digest=digest)
        for taken in (*helpers, own):
            if taken.name not in self.functions:
                self.attribute_group(taken.attributes)
                self.functions[taken.name] = taken
                self.size += taken.size

    def forget_instructions(self) -> None:
        """Keep of the functions what their text and their fields say."""
        for function in self.functions.values():
            function.blocks = []

    def table(self, element: str, values: Iterable[str]) -> Value:
        """A private read-only array of constants (each in LLVM syntax, without its type); equal arrays are shared.

        For the code of a function: :meth:`.Builder.constant_array`.
        """
        items = list(values)
        content = ", ".join(f"{element} {v}" for v in items)
        # By the content, so that a function that reads it has the same text in every module.
        digest = hashlib.blake2b(f"{element} {content}".encode(), digest_size=8)
        name = f"@table.{digest.hexdigest()}"
        if name not in self.globals:
            self.globals[name] = Global(name, element, len(items), content)
        return Value("ptr", name)

    def local_array(self, owner: str, element: str, count: int, number: int) -> Value:
        """Memory of a work-group (address space 3) for function ``owner``; ``number`` tells those of a kind apart."""
        name = f"@tripont.local.{owner}.{element}.{number}"
        array = Global(name, element, count, None)
        if self.globals.setdefault(name, array) != array:
            raise ValueError(f"two arrays are called {name}")
        return Value("ptr addrspace(3)", name)

    def attribute_group(self, attributes: str) -> int:
        """The number of a function attribute group."""
        return self.attributes.setdefault(attributes, len(self.attributes))

    def __str__(self) -> str:
        functions = [self._function(f, f.linkage) for f in self.functions.values()]
        declared = [name for name in sorted(self.declarations) if name not in self.functions]
        tables = map(text.table_of, self.globals.values())
        return self._text(tables, functions, declared, self.attributes)

    def identity(self) -> str:
        """All that its machine code depends on: the text, and which functions are called from outside."""
        return f"{self}; launched: {sorted(self.launched or ())}"

    def _text(
        self,
        tables: Iterable[str],
        functions: Sequence[str],
        declared: Iterable[str],
        groups: Mapping[str, int],
    ) -> str:
        attributes = [f"attributes #{n} = {{ {group} }}" for group, n in groups.items()]
        declarations = [text.declaration(name, *self.declarations[name]) for name in declared]
        parts = [
            *self.header,
            *tables,
            *functions,
            *declarations,
            *attributes,
        ]
        return "\n".join(parts) + "\n"

    def _function(self, function: Function, linkage: str) -> str:
        group = self.attribute_group(function.attributes)
        return text.head_of(function, linkage, group) + function.body

    def part(self, names: Collection[str]) -> str:
        """A module of the functions ``names`` and of what they use, as text, whatever else is in this one. Each
        function and each table is in a section of its own.

        Internal functions and tables go wherever they are used; of other functions that ``names`` call there is a
        copy, an internal one.
        """
        own, groups = set(names), dict[str, int]()
        reached = self._reached(names)
        functions = []
        for function in reached:
            group = groups.setdefault(function.attributes, len(groups))
            linkage = function.linkage if function.name in own else "internal"
            functions.append(text.head_of(function, linkage, group, apart=True) + function.body)
        tables, declared = self._used(reached)
        read = [text.table_of(self.globals[name], apart=True) for name in sorted(tables)]
        return self._text(read, functions, sorted(declared), groups)

    def meaning(self, name: str) -> str:
        """What the code of an external function depends on: its text and that of what it uses, but for its name."""
        parts = []
        reached = self._reached([name])
        for function in reached:
            shown = function if function.name != name else replace(function, name="")
            parts += [text.head_of(shown, "", 0), function.attributes, function.body]
        tables, declared = self._used(reached)
        parts += [text.table_of(self.globals[table]) for table in tables]
        parts += [text.declaration(other, *self.declarations[other]) for other in declared]
        return "\n".join(parts)

    def digest(self, name: str) -> bytes:
        """A digest of :meth:`meaning`. The function keeps it, also where another module takes it."""
        function = self.functions[name]
        if not function.digest:
            function.digest = hashlib.sha256(self.meaning(name).encode()).digest()
        return function.digest

    def _used(self, functions: Iterable[Function]) -> tuple[list[str], list[str]]:
        """The tables that functions read, and what they call that is not in the module, in their order."""
        used = dict.fromkeys(name for function in functions for name in function.references)
        tables = [name for name in used if name in self.globals]
        return tables, [n for n in used if n not in self.globals and n not in self.functions]

    def _reached(self, names: Iterable[str]) -> list[Function]:
        """The functions ``names`` and those that they call, each behind what it calls."""
        order: list[Function] = []
        entered: set[str] = set()
        for first in names:
            stack = [(first, False)]
            while stack:
                name, done = stack.pop()
                if done:
                    order.append(self.functions[name])
                elif name in self.functions and name not in entered:
                    entered.add(name)
                    stack.append((name, True))
                    stack += [(used, False) for used in reversed(self.functions[name].references)]
        return order
