"""A module of the kernel IR: functions, declarations and tables."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
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
        functions: dict[str, Function] = {}
        tables: dict[str, Global] = {}
        declared: dict[str, tuple[str, tuple[str, ...]]] = {}

        def visit(name: str) -> None:
            for used in self.functions[name].references:
                if used in self.globals:
                    tables[used] = self.globals[used]
                    continue
                declared[used] = self.declarations[used]
                if used in self.functions and used not in functions:
                    visit(used)
            functions[name] = self.functions[name]

        visit(name)
        declarations = tuple((used, *types) for used, types in declared.items())
        return Closed(tuple(functions.values()), tuple(tables.values()), declarations)

    def take(self, closed: Closed, name: str) -> None:
        """Add a function of another module, as ``name``, and those that it uses, where they are not there yet."""
        for used, result, arguments in closed.declarations:
            self.declare(used, result, arguments)
        for table in closed.tables:
            self.globals.setdefault(table.name, table)
        *helpers, function = closed.functions
        longer = len(name) - len(function.name)
        for taken in (*helpers, replace(function, name=name, size=function.size + longer)):
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
        return self._text(
            self.globals.values(),
            [self._function(f, f.linkage) for f in self.functions.values()],
            self.functions,
        )

    def identity(self) -> str:
        """All that its machine code depends on: the text, and which functions are called from outside."""
        return f"{self}; launched: {sorted(self.launched or ())}"

    def _text(
        self, globals_: Iterable[Global], functions: Sequence[str], defined: Collection[str]
    ) -> str:
        groups = [
            f"attributes #{n} = {{ {attributes} }}" for attributes, n in self.attributes.items()
        ]
        declarations = [
            text.declaration(name, *types)
            for name, types in sorted(self.declarations.items())
            if name not in defined
        ]
        parts = [*self.header, *map(text.table_of, globals_), *functions, *declarations, *groups]
        return "\n".join(parts) + "\n"

    def _function(self, function: Function, linkage: str) -> str:
        group = self.attribute_group(function.attributes)
        return text.head_of(function, linkage, group) + function.body

    def part(self, names: Collection[str]) -> str:
        """A module of the functions ``names`` and of what they use, as text.

        Internal functions and tables go wherever they are used; of other functions that ``names`` call there is a
        copy, an internal one.
        """
        reached: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            if name in reached:
                continue
            if name in self.functions:
                reached.add(name)
                stack += self.functions[name].references
            elif name in self.globals:
                reached.add(name)
        own = set(names)
        functions = [
            self._function(f, f.linkage if name in own else "internal")
            for name, f in self.functions.items()
            if name in reached
        ]
        return self._text(
            [table for name, table in self.globals.items() if name in reached],
            functions,
            reached,
        )
