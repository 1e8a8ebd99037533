"""A small writer of LLVM IR text.

llvmlite's IR builder makes a Python object an instruction and prints it later; here an instruction is one
formatted line, which is several times faster, and what one reads in a dump is what was written. llvmlite only
parses and compiles it.

Types are LLVM's own spelling (``"float"``, ``"<16 x float>"``, ``"i64"``, ``"ptr"``); a :class:`Value` is a
type and an operand as it stands in the text (``"%v12"`` or a constant). Integer arithmetic on two constants is
folded, and so are the usual identities (x+0, x*1, x*0), because index arithmetic is full of them.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple


class Value(NamedTuple):
    """An SSA value or constant: LLVM type and operand text."""

    type: str
    ref: str

    @property
    def is_constant(self) -> bool:
        return self.ref[0] not in "%@"


_REFERENCE: Final = re.compile(r"@([\w.$]+)")
VECTOR_TEMPLATE: Final = "<{} x {}>"


@functools.cache
def vector(scalar: str, lanes: int) -> str:
    """The type of ``lanes`` elements of ``scalar``; one lane is the scalar type itself."""
    return scalar if lanes == 1 else f"<{lanes} x {scalar}>"


@functools.cache
def lanes_of(type_: str) -> int:
    """How many elements a type has; 1 for a scalar."""
    return int(type_[1 : type_.index(" ")]) if type_[0] == "<" else 1


@functools.cache
def scalar_of(type_: str) -> str:
    """The element type of a vector, or the scalar type itself."""
    return type_[type_.index("x ") + 2 : -1] if type_[0] == "<" else type_


def _constant(type_: str, text: str) -> Value:
    return Value(type_, f"splat ({scalar_of(type_)} {text})" if type_[0] == "<" else text)


def integer(type_: str, value: int) -> Value:
    """An integer constant, or a splat of it; the value is wrapped to the type's width."""
    scalar = scalar_of(type_)
    bits = int(scalar[1:])
    value &= (1 << bits) - 1
    if bits == 1:
        return _constant(type_, "true" if value else "false")
    return _constant(type_, str(value - (1 << bits) if value >> (bits - 1) else value))


def floating(type_: str, value: float) -> Value:
    """A floating-point constant, or a splat of it, rounded to the type. Types: half, bfloat, float, double."""
    scalar = scalar_of(type_)
    if scalar == "double":
        text = f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"
    elif scalar == "float":
        try:
            rounded = struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            rounded = float("inf") if value > 0 else float("-inf")
        text = f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    elif scalar == "half":
        try:
            bits = struct.unpack("<H", struct.pack("<e", value))[0]
        except OverflowError:
            bits = 0x7C00 if value > 0 else 0xFC00
        text = f"0xH{bits:04X}"
    else:
        raise ValueError(f"no constants of type {type_}")
    return _constant(type_, text)


def zero(type_: str) -> Value:
    return Value(type_, "zeroinitializer" if type_[0] == "<" else _ZERO.get(type_, "0"))


_ZERO: Final = {"float": "0.0", "double": "0.0", "half": "0xH0000", "ptr": "null", "i1": "false"}

TRUE: Final = Value("i1", "true")
FALSE: Final = Value("i1", "false")


def i64(value: int) -> Value:
    return Value("i64", str(value))


class Module:
    """Functions, declarations and constants of one LLVM module, as text."""

    def __init__(self, triple: str = "", data_layout: str = "") -> None:
        self.header = [f'target datalayout = "{data_layout}"'] if data_layout else []
        if triple:
            self.header.append(f'target triple = "{triple}"')
        self.globals: list[str] = []
        self.functions: list[str] = []
        self.size = 0  # characters of the functions
        self.declarations: dict[str, str] = {}
        self.defined: dict[str, None] = {}  # functions of this module, in order: never declared too
        self.attributes: dict[str, int] = {}
        # Of each function: its own, and with inlined calls.
        self.lines: dict[str, tuple[int, int]] = {}
        self.launched: set[str] | None = None  # functions called from outside, once that is known
        self._constants: dict[tuple[str, str], str] = {}

    def declare(self, name: str, result: str, arguments: Sequence[str]) -> None:
        """Declare an intrinsic or an imported function once; not needed for functions that this module defines."""
        if name not in self.declarations:
            self.declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"

    def function_texts(self) -> Iterator[tuple[str, str]]:
        """The name and text of each function written so far."""
        return zip(self.defined, self.functions, strict=True)

    def constant_array(self, element: str, values: Iterable[str]) -> Value:
        """A private read-only array of constants (each in LLVM syntax, without its type); equal arrays are shared."""
        items = list(values)
        text = ", ".join(f"{element} {v}" for v in items)
        name = self._constants.get((element, text))
        if name is None:
            name = f"@table.{len(self._constants)}"
            self._constants[element, text] = name
            kind = f"[{len(items)} x {element}]"
            self.globals.append(f"{name} = private unnamed_addr constant {kind} [{text}], align 64")
        return Value("ptr", name)

    def local_array(self, owner: str, element: str, count: int, number: int) -> Value:
        """Memory of a work-group (address space 3) for function ``owner``; ``number`` tells those of a kind apart."""
        name = f"@tripont.local.{owner}.{element}.{number}"
        kind = f"[{count} x {element}]"
        text = f"{name} = internal addrspace(3) global {kind} undef, align 64"
        if text not in self.globals:
            self.globals.append(text)
        return Value("ptr addrspace(3)", name)

    def attribute_group(self, attributes: str) -> str:
        """The reference (``#0``) of a function attribute group."""
        return f"#{self.attributes.setdefault(attributes, len(self.attributes))}"

    def __str__(self) -> str:
        return self._text(self.globals, self.functions, self.defined)

    def identity(self) -> str:
        """All that its machine code depends on: the text, and which functions are called from outside."""
        return f"{self}; launched: {sorted(self.launched or ())}"

    def _text(
        self, globals_: Sequence[str], functions: Sequence[str], defined: Container[str]
    ) -> str:
        groups = [f"attributes #{n} = {{ {text} }}" for text, n in self.attributes.items()]
        declarations = [text for name, text in self.declarations.items() if name not in defined]
        parts = [*self.header, *globals_, *functions, *declarations, *groups]
        return "\n".join(parts) + "\n"

    def part(self, names: Collection[str]) -> str:
        """A module of the functions ``names`` and of what they use, as text.

        Internal functions and constants go wherever they are used; of other functions that ``names`` call there is a
        copy, an internal one.
        """
        texts = dict(self.function_texts())
        tables = {text[1 : text.index(" ")]: text for text in self.globals}
        reached: set[str] = set()
        stack = list(names)
        while stack:
            name = stack.pop()
            text = texts.get(name) or tables.get(name)
            if text is not None and name not in reached:
                reached.add(name)
                stack += _REFERENCE.findall(text)
        own = set(names)
        functions = []
        for name, text in texts.items():
            if name in reached:
                if name not in own and not text.startswith("define internal"):
                    text = text.replace("define", "define internal", 1)
                functions.append(text)
        return self._text(
            [text for name, text in tables.items() if name in reached], functions, reached
        )


class Builder:
    """Writes one function. Make it, write its blocks, then call :meth:`finish`."""

    def __init__(
        self,
        module: Module,
        name: str,
        parameters: Sequence[str],
        result: str = "void",
        *,
        attributes: str = "nounwind",
        linkage: str = "",
        parameter_attributes: Sequence[str] = (),
    ) -> None:
        self.module = module
        self.name = name
        self.result = result
        self.linkage = linkage
        self.attributes = attributes
        self.arguments = [Value(t, f"%a{n}") for n, t in enumerate(parameters)]
        self.parameter_attributes = list(parameter_attributes) or [""] * len(parameters)
        self.inlined_lines = 0  # of functions that calls say to inline
        self.blocks: list[list[str]] = []
        self.block = ""
        self._lines: list[str] = []
        self._entry_lines: list[str] = []  # allocas: they must stand in the entry block
        self.count = 0  # of values made so far: the last one is ``%v<count>``
        self._labels = 0
        self.start_block(self.new_label("entry"))

    # -- blocks
    def new_label(self, hint: str = "b") -> str:
        self._labels += 1
        return f"{hint}.{self._labels}"

    def start_block(self, label: str) -> None:
        """Begin a block; the one before must have ended in a terminator."""
        self._lines = [f"{label}:"]
        self.blocks.append(self._lines)
        self.block = label

    def branch(self, label: str) -> None:
        self._lines.append(f"  br label %{label}")

    def branch_if(self, condition: Value, then: str, otherwise: str, metadata: str = "") -> None:
        self._lines.append(f"  br i1 {condition.ref}, label %{then}, label %{otherwise}{metadata}")

    def switch(self, value: Value, default: str, cases: Sequence[tuple[int, str]]) -> None:
        text = " ".join(f"{value.type} {n}, label %{label}" for n, label in cases)
        self._lines.append(f"  switch {value.type} {value.ref}, label %{default} [{text}]")

    def ret(self, value: Value | None = None) -> None:
        self._lines.append("  ret void" if value is None else f"  ret {value.type} {value.ref}")

    @contextmanager
    def loop(self, start: Value, stop: Value, step: int = 1, hint: str = "loop") -> Iterator[Value]:
        """``for (i = start; i < stop; i += step)``; the body may be empty. Gives i."""
        with self.loop_carrying(start, stop, step, (), hint) as (index, _, _):
            yield index

    @contextmanager
    def loop_carrying(
        self,
        start: Value,
        stop: Value,
        step: int,
        initial: Sequence[Value],
        hint: str = "loop",
        more: list[Value] | None = None,
    ) -> Iterator[tuple[Value, list[Value], list[Value]]]:
        """A loop with carried values, tested at its end. Gives (i, carried, results).

        In the body put the next values into ``carried[:]``; ``results`` may be used behind the loop only. With
        ``more``, append a truth value to it in the body: the loop ends too where it is false.
        """
        before, body, done = self.block, self.new_label(hint), self.new_label("done")
        entered = start.is_constant and stop.is_constant and int(start.ref) < int(stop.ref)
        if entered:
            self.branch(body)
        else:
            self.branch_if(self.icmp("slt", start, stop), body, done)
        self.start_block(body)
        body_lines = self._lines
        index = Value(start.type, self._fresh())
        phis = [Value(v.type, self._fresh()) for v in initial]
        carried = list(phis)
        results = [Value(v.type, self._fresh()) for v in initial]
        yield index, carried, results
        following = self.binary("add nsw", index, integer(index.type, step))
        condition = self.icmp("slt", following, stop)
        for wanted in more or ():
            condition = self.binary("and", condition, wanted)
        latch = self.block
        self.branch_if(condition, body, done)
        lines = [
            f"  {index.ref} = phi {index.type} [ {start.ref}, %{before} ], [ {following.ref}, %{latch} ]"
        ]
        for phi, first, last in zip(phis, initial, carried, strict=True):
            lines.append(
                f"  {phi.ref} = phi {phi.type} [ {first.ref}, %{before} ], [ {last.ref}, %{latch} ]"
            )
        body_lines[1:1] = lines
        self.start_block(done)
        for result, first, last in zip(results, initial, carried, strict=True):
            skipped = "" if entered else f"[ {first.ref}, %{before} ], "
            self._lines.append(
                f"  {result.ref} = phi {result.type} {skipped}[ {last.ref}, %{latch} ]"
            )

    @property
    def lines(self) -> list[str]:
        """The lines of the block being written; see ``insert_before_terminator``."""
        return self._lines

    @contextmanager
    def append_to(self, lines: list[str]) -> Iterator[None]:
        """Write at the end of an unfinished block."""
        saved, self._lines = self._lines, lines
        try:
            yield
        finally:
            self._lines = saved

    @contextmanager
    def insert_before_terminator(self, lines: list[str]) -> Iterator[None]:
        """Write, without starting blocks, in front of the last line of a block that is finished already."""
        saved, self._lines = self._lines, []
        try:
            yield
        finally:
            lines[-1:-1] = self._lines
            self._lines = saved

    # -- instructions
    def _fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def emit(self, type_: str, text: str) -> Value:
        """Append ``%vN = text`` and give the value."""
        ref = self._fresh()
        self._lines.append(f"  {ref} = {text}")
        return Value(type_, ref)

    def emit_void(self, text: str) -> None:
        self._lines.append(f"  {text}")

    def binary(self, opcode: str, a: Value, b: Value) -> Value:
        """``opcode`` may carry flags: ``"fadd contract"``, ``"add nsw"``."""
        return self.emit(a.type, f"{opcode} {a.type} {a.ref}, {b.ref}")

    def add(self, a: Value, b: Value) -> Value:
        """Integer addition, folded where both are known or one is 0."""
        if a.ref == "0" or a.ref == "zeroinitializer":
            return b
        if b.ref == "0" or b.ref == "zeroinitializer":
            return a
        if a.type[0] == "i" and a.is_constant and b.is_constant:
            return integer(a.type, int(a.ref) + int(b.ref))
        return self.binary("add nsw" if a.type == "i64" else "add", a, b)

    def sub(self, a: Value, b: Value) -> Value:
        if b.ref == "0" or b.ref == "zeroinitializer":
            return a
        if a.type[0] == "i" and a.is_constant and b.is_constant:
            return integer(a.type, int(a.ref) - int(b.ref))
        return self.binary("sub nsw" if a.type == "i64" else "sub", a, b)

    def mul(self, a: Value, b: Value) -> Value:
        for x, y in ((a, b), (b, a)):
            if x.ref == "1":
                return y
            if x.ref == "0" or x.ref == "zeroinitializer":
                return x
        if a.type[0] == "i" and a.is_constant and b.is_constant:
            return integer(a.type, int(a.ref) * int(b.ref))
        return self.binary("mul nsw" if a.type == "i64" else "mul", a, b)

    def icmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.emit(
            vector("i1", lanes_of(a.type)), f"icmp {predicate} {a.type} {a.ref}, {b.ref}"
        )

    def fcmp(self, predicate: str, a: Value, b: Value) -> Value:
        return self.emit(
            vector("i1", lanes_of(a.type)), f"fcmp {predicate} {a.type} {a.ref}, {b.ref}"
        )

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        text = f"select {condition.type} {condition.ref}, {a.type} {a.ref}, {b.type} {b.ref}"
        return self.emit(a.type, text)

    def fneg(self, a: Value) -> Value:
        return self.emit(a.type, f"fneg {a.type} {a.ref}")

    def cast(self, opcode: str, a: Value, type_: str) -> Value:
        """``opcode``: zext, sext, trunc, fpext, fptrunc, sitofp, uitofp, fptosi, fptoui, bitcast, ptrtoint, ..."""
        return a if a.type == type_ else self.emit(type_, f"{opcode} {a.type} {a.ref} to {type_}")

    def load(self, type_: str, pointer: Value, align: int, metadata: str = "") -> Value:
        return self.emit(type_, f"load {type_}, ptr {pointer.ref}, align {align}{metadata}")

    def store(self, value: Value, pointer: Value, align: int, metadata: str = "") -> None:
        self._lines.append(
            f"  store {value.type} {value.ref}, ptr {pointer.ref}, align {align}{metadata}"
        )

    def gep(self, element: str, pointer: Value, index: Value, inbounds: bool = True) -> Value:
        """The address of element ``index`` (i64, or a vector of them for a vector of pointers).

        ``inbounds``: that the element is in the array of ``pointer``. LLVM may draw conclusions from it, so addresses
        that may lie behind the array, such as those to prefetch, must not say it.
        """
        if index.ref == "0":
            return pointer
        type_ = vector("ptr", lanes_of(index.type))
        flag = "inbounds " if inbounds else ""
        return self.emit(
            type_, f"getelementptr {flag}{element}, ptr {pointer.ref}, {index.type} {index.ref}"
        )

    def alloca(self, type_: str, count: int = 1, align: int = 64) -> Value:
        """``count`` elements on the stack, made once at function entry."""
        ref = self._fresh()
        number = "" if count == 1 else f", i64 {count}"
        self._entry_lines.append(f"  {ref} = alloca {type_}{number}, align {align}")
        return Value("ptr", ref)

    def call(self, result: str, name: str, arguments: Sequence[Value], flags: str = "") -> Value:
        """Call a function or intrinsic by name, declaring it. ``flags``: fast-math flags."""
        self.module.declare(name, result, [a.type for a in arguments])
        text = ", ".join(f"{a.type} {a.ref}" for a in arguments)
        call = f"call {flags + ' ' if flags else ''}{result} @{name}({text})"
        if result == "void":
            self._lines.append(f"  {call}")
            return Value("void", "undef")
        return self.emit(result, call)

    def intrinsic(self, name: str, arguments: Sequence[Value], flags: str = "") -> Value:
        """An overloaded intrinsic whose result has its first argument's type: ``intrinsic("fma", [a, b, c])``."""
        type_ = arguments[0].type
        return self.call(type_, f"llvm.{name}.{mangle(type_)}", arguments, flags)

    def splat(self, value: Value, lanes: int) -> Value:
        """A vector with ``value`` in each lane; the value itself for one lane."""
        if lanes == 1 or value.type[0] == "<":
            return value
        type_ = vector(value.type, lanes)
        if value.is_constant:
            return Value(type_, f"splat ({value.type} {value.ref})")
        one = self.emit(type_, f"insertelement {type_} poison, {value.type} {value.ref}, i64 0")
        return self.emit(
            type_,
            f"shufflevector {type_} {one.ref}, {type_} poison, <{lanes} x i32> zeroinitializer",
        )

    def lane_offsets(self, scalar: str, lanes: int, stride: int = 1) -> Value:
        """The constant vector <0, stride, 2*stride, ...>; the constant 0 for one lane."""
        if lanes == 1:
            return Value(scalar, "0")
        return Value(
            vector(scalar, lanes), f"<{', '.join(f'{scalar} {n * stride}' for n in range(lanes))}>"
        )

    def extract(self, value: Value, lane: int) -> Value:
        if value.type[0] != "<":
            return value
        return self.emit(
            scalar_of(value.type), f"extractelement {value.type} {value.ref}, i64 {lane}"
        )

    def insert(self, vector_: Value, value: Value, lane: int) -> Value:
        text = f"insertelement {vector_.type} {vector_.ref}, {value.type} {value.ref}, i64 {lane}"
        return self.emit(vector_.type, text)

    def shuffle(self, a: Value, b: Value, mask: Sequence[int]) -> Value:
        type_ = vector(scalar_of(a.type), len(mask))
        lanes = ", ".join(f"i32 {m}" for m in mask)
        return self.emit(
            type_,
            f"shufflevector {a.type} {a.ref}, {b.type} {b.ref}, <{len(mask)} x i32> <{lanes}>",
        )

    def local_memory(self, element: str, count: int, number: int) -> Value:
        """Address of an array that the work-items of a group share; see :meth:`Module.local_array`."""
        array = self.module.local_array(self.name, element, count, number)
        return self.emit("ptr", f"addrspacecast {array.type} {array.ref} to ptr")

    def finish(self) -> None:
        """Close the function (its last block must have a terminator) and add it to the module."""
        self.blocks[0][1:1] = self._entry_lines
        parameters = ", ".join(
            f"{a.type} {attributes + ' ' if attributes else ''}{a.ref}"
            for a, attributes in zip(self.arguments, self.parameter_attributes, strict=True)
        )
        group = self.module.attribute_group(self.attributes)
        linkage = self.linkage + " " if self.linkage else ""
        body = "\n".join("\n".join(block) for block in self.blocks)
        head = f"define {linkage}{self.result} @{self.name}({parameters}) {group}"
        lines = sum(map(len, self.blocks))
        self.module.lines[self.name] = lines, lines + self.inlined_lines
        self.module.defined[self.name] = None
        text = f"{head} {{\n{body}\n}}"
        self.module.functions.append(text)
        self.module.size += len(text)


@functools.cache
def mangle(type_: str) -> str:
    """The suffix of an overloaded intrinsic's name: float -> f32, <16 x float> -> v16f32, ptr -> p0."""
    scalar = scalar_of(type_)
    name = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}.get(
        scalar, scalar
    )
    return name if type_[0] != "<" else f"v{lanes_of(type_)}{name}"
