"""The kernel IR as LLVM's text: one line an instruction, by the table :data:`LINES`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from .instructions import BINARY, CASTS, Block, Function, Global, Instruction
from .values import Value, mangle


def body_of(blocks: Iterable[Block]) -> str:
    """All lines of a function but the first: each block's label and instructions."""
    lines = []
    for block in blocks:
        lines.append(f"{block.label}:")
        lines += [LINES[i[0]](*i) for i in block.instructions]
    lines.append("}")
    return "\n".join(lines)


def head_of(function: Function, linkage: str, group: int, *, apart: bool = False) -> str:
    """The first line of a function whose attributes are those of a group. ``apart``: in a section of its own."""
    parameters = ", ".join(
        f"{a.type} {attributes + ' ' if attributes else ''}{a.ref}"
        for a, attributes in zip(function.arguments, function.parameter_attributes, strict=True)
    )
    linkage = linkage + " " if linkage else ""
    section = f' section ".text.{function.name}"' if apart else ""
    return (
        f"define {linkage}{function.result} @{function.name}({parameters}) #{group}{section} {{\n"
    )


def table_of(
    table: Global, constant: str = "private unnamed_addr constant", *, apart: bool = False
) -> str:
    """A table of constants, or an array that the work-items of a group share. ``constant``: how a table is declared;
    ``apart``: in a section of its own.
    """
    kind = f"[{table.length} x {table.element}]"
    if table.values is None:
        return f"{table.name} = internal addrspace(3) global {kind} undef, align 64"
    section = f', section ".rodata.{table.name.removeprefix("@")}"' if apart else ""
    return f"{table.name} = {constant} {kind} [{table.values}]{section}, align 64"


def declaration(name: str, result: str, arguments: Sequence[str]) -> str:
    return f"declare {result} @{name}({', '.join(arguments)})"


def masked_name(code: str, value: str, address: str) -> str:
    """The intrinsic for a masked access of vectors of type ``value``."""
    return f"llvm.masked.{code.removeprefix('masked ')}.{mangle(value)}.{mangle(address)}"


# ------------------------------------------------------------------------------ one function a kind of instruction
Result = Any  # Value or None, as the kind of instruction has it
Operands = tuple[Value, ...]


def _binary(code: str, result: Result, operands: Operands, flags: str, _: Any) -> str:
    a, b = operands
    if flags:
        code = f"{code} {flags}"
    return f"  {result.ref} = {code} {a.type} {a.ref}, {b.ref}"


def _compare(code: str, result: Result, operands: Operands, _: str, predicate: Any) -> str:
    a, b = operands
    return f"  {result.ref} = {code} {predicate} {a.type} {a.ref}, {b.ref}"


def _cast(code: str, result: Result, operands: Operands, _: str, __: Any) -> str:
    (a,) = operands
    return f"  {result.ref} = {code} {a.type} {a.ref} to {result.type}"


def _fneg(_: str, result: Result, operands: Operands, __: str, ___: Any) -> str:
    (a,) = operands
    return f"  {result.ref} = fneg {a.type} {a.ref}"


def _select(_: str, result: Result, operands: Operands, __: str, ___: Any) -> str:
    c, a, b = operands
    return f"  {result.ref} = select {c.type} {c.ref}, {a.type} {a.ref}, {b.type} {b.ref}"


def _load(_: str, result: Result, operands: Operands, __: str, align: Any) -> str:
    (p,) = operands
    return f"  {result.ref} = load {result.type}, {p.type} {p.ref}, align {align}"


def _store(_: str, __: Result, operands: Operands, flags: str, align: Any) -> str:
    v, p = operands
    metadata = ", !nontemporal !{i32 1}" if flags else ""
    return f"  store {v.type} {v.ref}, {p.type} {p.ref}, align {align}{metadata}"


def _gep(_: str, result: Result, operands: Operands, flags: str, element: Any) -> str:
    p, i = operands
    if flags:
        flags += " "
    return f"  {result.ref} = getelementptr {flags}{element}, {p.type} {p.ref}, {i.type} {i.ref}"


def _alloca(_: str, result: Result, __: Operands, ___: str, detail: Any) -> str:
    type_, count, align = detail
    number = "" if count == 1 else f", i64 {count}"
    return f"  {result.ref} = alloca {type_}{number}, align {align}"


def _call(_: str, result: Result, operands: Operands, flags: str, name: Any) -> str:
    arguments = ", ".join([f"{a.type} {a.ref}" for a in operands])
    if flags == "alwaysinline":
        before, after = "", " alwaysinline"
    else:
        before, after = f"{flags} " if flags else "", ""
    if result is None:
        return f"  call {before}void @{name}({arguments}){after}"
    return f"  {result.ref} = call {before}{result.type} @{name}({arguments}){after}"


# Masked loads and stores have their alignment as an argument, which LLVM 22 reads as well as its own form (an attribute
# of the pointer), and before LLVM 22 there was nothing else.
def _masked_load(code: str, result: Result, operands: Operands, _: str, align: Any) -> str:
    p, mask, otherwise = operands
    name = masked_name(code, result.type, p.type)
    rest = f"{mask.type} {mask.ref}, {otherwise.type} {otherwise.ref}"
    return f"  {result.ref} = call {result.type} @{name}({p.type} {p.ref}, i32 {align}, {rest})"


def _masked_store(code: str, _: Result, operands: Operands, __: str, align: Any) -> str:
    v, p, mask = operands
    name = masked_name(code, v.type, p.type)
    place = f"{p.type} {p.ref}, i32 {align}"
    return f"  call void @{name}({v.type} {v.ref}, {place}, {mask.type} {mask.ref})"


def _any(_: str, result: Result, operands: Operands, __: str, ___: Any) -> str:
    (v,) = operands
    return f"  {result.ref} = call i1 @llvm.vector.reduce.or.{mangle(v.type)}({v.type} {v.ref})"


def _extract(_: str, result: Result, operands: Operands, __: str, ___: Any) -> str:
    v, lane = operands
    return f"  {result.ref} = extractelement {v.type} {v.ref}, i64 {lane.ref}"


def _insert(_: str, result: Result, operands: Operands, __: str, ___: Any) -> str:
    v, e, lane = operands
    return f"  {result.ref} = insertelement {v.type} {v.ref}, {e.type} {e.ref}, i64 {lane.ref}"


def _shuffle(_: str, result: Result, operands: Operands, __: str, lanes: Any) -> str:
    a, b = operands
    if lanes is None:
        text = f"<{result.type[1 : result.type.index(' ')]} x i32> zeroinitializer"
    else:
        text = f"<{len(lanes)} x i32> <{', '.join([f'i32 {n}' for n in lanes])}>"
    return f"  {result.ref} = shufflevector {a.type} {a.ref}, {b.type} {b.ref}, {text}"


def _extract_value(_: str, result: Result, operands: Operands, __: str, number: Any) -> str:
    (a,) = operands
    return f"  {result.ref} = extractvalue {a.type} {a.ref}, {number}"


def _insert_value(_: str, result: Result, operands: Operands, __: str, number: Any) -> str:
    a, v = operands
    return f"  {result.ref} = insertvalue {a.type} {a.ref}, {v.type} {v.ref}, {number}"


def _phi(_: str, result: Result, operands: Operands, __: str, labels: Any) -> str:
    ways = ", ".join([f"[ {v.ref}, %{b} ]" for v, b in zip(operands, labels, strict=True)])
    return f"  {result.ref} = phi {result.type} {ways}"


def _branch(_: str, __: Result, operands: Operands, ___: str, labels: Any) -> str:
    if not operands:
        return f"  br label %{labels[0]}"
    return f"  br i1 {operands[0].ref}, label %{labels[0]}, label %{labels[1]}"


def _switch(_: str, __: Result, operands: Operands, ___: str, labels: Any) -> str:
    (v,) = operands
    default, *cases = labels
    text = " ".join(f"{v.type} {n}, label %{label}" for n, label in cases)
    return f"  switch {v.type} {v.ref}, label %{default} [{text}]"


def _ret(_: str, __: Result, operands: Operands, ___: str, ____: Any) -> str:
    return f"  ret {operands[0].type} {operands[0].ref}" if operands else "  ret void"


def _fence(_: str, __: Result, ___: Operands, ____: str, ordering: Any) -> str:
    return f"  fence {ordering}"


LINES: Final[dict[str, Callable[[str, Result, Operands, str, Any], str]]] = {
    **dict.fromkeys(BINARY, _binary),
    **dict.fromkeys(CASTS, _cast),
    "icmp": _compare,
    "fcmp": _compare,
    "fneg": _fneg,
    "select": _select,
    "load": _load,
    "store": _store,
    "getelementptr": _gep,
    "alloca": _alloca,
    "call": _call,
    "gather": _masked_load,
    "masked load": _masked_load,
    "scatter": _masked_store,
    "masked store": _masked_store,
    "any": _any,
    "extractelement": _extract,
    "insertelement": _insert,
    "shufflevector": _shuffle,
    "extractvalue": _extract_value,
    "insertvalue": _insert_value,
    "phi": _phi,
    "br": _branch,
    "switch": _switch,
    "ret": _ret,
    "fence": _fence,
}


def line(instruction: Instruction) -> str:
    """An instruction's line."""
    return LINES[instruction.code](*instruction)
