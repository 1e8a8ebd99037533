"""From the LLVM IR that kernels are written in to the LLVM IR that SPIR-V can hold.

Element generators write for a flat memory: one kind of pointer, vectors of pointers for gathers, masked loads and
stores. OpenCL has address spaces, and SPIR-V neither vectors of pointers nor masks. This module rewrites the text
of a module line by line (:mod:`...codegen.llvm_ir` writes one instruction a line, in one way each):

* every ``ptr`` becomes a pointer to the *generic* address space (4), which can point at global and private memory;
  ``alloca`` and tables of constants are cast to it where they are made;
* a function ``void f(ptr arguments, i64 begin, i64 end)`` becomes a function that is inlined, and gets an OpenCL kernel
  of its name: ``f(global T* a0, ..., i64 count, i64 chunk)``, whose work-item number i does units
  [i * chunk, min((i + 1) * chunk, count)); where work-items share units, i is the number of the work-group;
* gathers, scatters, masked loads and masked stores become scalar loads and stores of the lanes. A lane that the mask
  leaves out uses a dummy on the stack instead of its address, so there are no branches.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Final

from ...codegen import llvm_ir
from ...ir.errors import internal
from .contract import contract

GENERIC: Final = "ptr addrspace(4)"
GLOBAL: Final = "ptr addrspace(1)"
GLOBAL_ID: Final = "_Z13get_global_idj"
GROUP_ID: Final = "_Z12get_group_idj"

# Attributes that are about a kernel's function on the host, or about nothing here.
_DEFINE: Final = re.compile(r"define (internal )?(\S.*?) @([\w.$]+)\((.*)\) #(\d+) \{$")
_POINTER: Final = re.compile(r"\bptr\b(?! addrspace)")
_ALLOCA: Final = re.compile(r"  (%\w+) = alloca (.+?)(?:, i64 (\d+))?, align (\d+)$")
_TABLE: Final = re.compile(r"@table\.\d+")
_VECTOR_GEP: Final = re.compile(
    r"  (%\w+) = getelementptr inbounds (\S+), ptr (\S+), (<(\d+) x i64>) (.+)$"
)
_VECTOR: Final = re.compile(r"<(\d+) x (\w+)>")
_MASKED: Final = re.compile(
    r"  (?:(%\w+) = )?call \S.*? @llvm\.masked\.(gather|scatter|load|store)\.[\w.]+\((.*)\)$"
)
_ANY: Final = re.compile(
    r"  (%\w+) = call i1 @llvm\.vector\.reduce\.or\.v(\d+)i1\(<\d+ x i1> (\S+)\)$"
)
_BOOL_TO_FLOAT: Final = re.compile(r"  (%\w+) = uitofp ((?:<\d+ x )?i1>?) (\S+) to (.+)$")
_TRUNCATE: Final = re.compile(r"  (%\w+) = trunc ((?:<\d+ x )?i\d+>?) (\S+) to .+$")
_EXTEND: Final = re.compile(
    r"  (%\w+) = (zext|sext) ((?:<\d+ x )?i(?:8|16|32)>?) (\S+) to ((?:<\d+ x )?i\d+>?)$"
)
_SATURATING: Final = re.compile(
    r"  (%\w+) = call (\S+|<\d+ x \w+>) (@llvm\.fpto[su]i\.sat\.[\w.]+)\((<\d+ x \w+>|\w+) (\S+)\)$"
)
_CALL: Final = re.compile(r"(  call void @)([\w.$]+)(\(.*)$")
_EXPANDED: Final = ("llvm.masked.", "llvm.vector.reduce.or.")
_ARGUMENT: Final = re.compile(r"getelementptr inbounds ptr, ptr %a0, i64 (\d+)$")
_KERNEL_PARAMETERS: Final = re.compile(r"ptr (?:\w+ )*%a0, i64 %a1, i64 %a2$")


@dataclass(slots=True)
class _Lanes:
    """A vector of addresses, kept as what it was made of: base + index of each lane."""

    element: str
    base: str
    index_type: str
    index: str


def legalize(
    module: llvm_ir.Module,
    attributes: str,
    groups: Set[str] = frozenset(),
    work_group: int = 1,
    sub_group: int = 1,
) -> str:
    """The text of ``module`` for spirv64. ``attributes``: of every function; ``groups``: the kernels whose units are
    done by ``work_group`` work-items each, in sub-groups of ``sub_group`` (1: any).

    Raises CompileError INTERNAL for IR that is not of the forms that code generation writes.
    """
    parts = list(module.header)
    for line in module.globals:
        parts.append(
            line.replace("private unnamed_addr constant", "internal addrspace(1) constant")
        )
    kernels: list[str] = []
    calls = {
        name
        for name, text in module.function_texts()
        if (head := _DEFINE.match(text[: text.index("\n")])) and _is_kernel(head)
    }

    def declare(name: str, type_: str) -> None:
        module.declare(name, type_, [type_] * 3)

    for name, text in module.function_texts():
        function = _Function(name, text, calls, declare)
        parts.append(function.rewrite())
        is_launched = module.launched is None or name in module.launched
        if function.num_arguments is not None and is_launched:
            size = work_group if function.name in groups else 1
            kernels.append(
                _kernel(function.name, function.num_arguments, size, sub_group, work_group > 1)
            )
    parts += kernels
    for name, text in module.declarations.items():
        if name not in module.defined and not name.startswith(_EXPANDED):
            text = _mangled(_POINTER.sub(GENERIC, text))
            # Calls that no work-item may make without the others of its group stay where they are.
            parts.append(f"{text} convergent" if name.startswith("_Z") else text)
    if kernels:
        parts += [f"declare spir_func i64 @{name}(i32)" for name in (GLOBAL_ID, GROUP_ID)]
        if not any("@llvm.smin.i64(" in p for p in parts if p.startswith("declare")):
            parts.append("declare i64 @llvm.smin.i64(i64, i64)")
    for text, number in module.attributes.items():
        # What is marked cold or noinline stays so.
        parts.append(f"attributes #{number} = {{ {text} }}")
    parts.append(f"attributes #{len(module.attributes)} = {{ {attributes} }}")
    return "\n".join(parts).replace("#kernel", f"#{len(module.attributes)}") + "\n"


def _kernel(name: str, count: int, group: int, sub_group: int, is_gpu: bool) -> str:
    """The OpenCL kernel that runs function ``name``.body with ``count`` arrays, on work-groups of ``group`` items.

    On a GPU a kernel with groups of one item says nothing of them: the device chooses. On a CPU it says that it
    computes with vectors (OpenCL's attribute vec_type_hint): without it the compiler of ``intel-opencl-rt`` also
    makes a variant that does several items at once. Nobody runs that variant, and making it takes ten times as long.
    """
    parameters = [f"{GLOBAL} %p{n}" for n in range(count)] + ["i64 %count", "i64 %chunk"]
    metadata = ""
    if group > 1 or not is_gpu:
        metadata = f"!reqd_work_group_size !{{i32 {group}, i32 1, i32 1}} "
    if not is_gpu:
        metadata += "!vec_type_hint !{<16 x float> undef, i32 0} "
    if group > 1 and sub_group > 1:
        metadata += f"!intel_reqd_sub_group_size !{{i32 {sub_group}}} "
    number = GROUP_ID if group > 1 else GLOBAL_ID
    lines = [
        f"define spir_kernel void @{name}({', '.join(parameters)}) #kernel {metadata}{{",
        f"  %table = alloca [{max(1, count)} x {GENERIC}], align 8",
    ]
    for n in range(count):
        lines += [
            f"  %c{n} = addrspacecast {GLOBAL} %p{n} to {GENERIC}",
            f"  %s{n} = getelementptr inbounds {GENERIC}, ptr %table, i64 {n}",
            f"  store {GENERIC} %c{n}, ptr %s{n}, align 8",
        ]
    lines += [
        f"  %id = call spir_func i64 @{number}(i32 0)",
        "  %begin = mul nsw i64 %id, %chunk",
        "  %next = add nsw i64 %begin, %chunk",
        "  %end = call i64 @llvm.smin.i64(i64 %next, i64 %count)",
        f"  %arguments = addrspacecast ptr %table to {GENERIC}",
        f"  call void @{name}.body({GENERIC} %arguments, i64 %begin, i64 %end) alwaysinline",
        "  ret void",
        "}",
    ]
    return "\n".join(lines)


def _mangled(text: str) -> str:
    """Names of intrinsics that are overloaded by a pointer type."""
    return re.sub(r"(@llvm\.[\w.]*)", lambda m: m[1].replace(".p0", ".p4"), text)


def _is_kernel(head: re.Match[str]) -> bool:
    """Whether a function header is a kernel's."""
    return not head[1] and head[2] == "void" and _KERNEL_PARAMETERS.match(head[4]) is not None


class _Function:
    """Rewrites one function. ``num_arguments``: of a kernel, the arrays it takes; None for any other function."""

    def __init__(
        self, name: str, text: str, kernels: Set[str], declare: Callable[[str, str], None]
    ) -> None:
        self.name = name
        self.declare = declare
        self.kernels = kernels  # of the module: sequences call them
        self.text = text
        self.lanes: dict[str, _Lanes] = {}
        self.dummies: dict[str, str] = {}  # LLVM type -> a place on the stack that nobody reads
        self.truncated: dict[
            str, tuple[str, str]
        ] = {}  # results of trunc: type and name of what it took
        self.fresh = 0
        self.num_arguments: int | None = None
        self.out: list[str] = []

    def rewrite(self) -> str:
        lines = self.text.split("\n")
        head = _DEFINE.match(lines[0])
        if head is None:
            raise internal(f"sycl: unexpected function header {lines[0]!r}")
        _, result, name, parameters, attributes = head.groups()
        if _is_kernel(head):
            self.num_arguments = self.count_arguments(lines)
            name += ".body"
        parameters = _POINTER.sub(GENERIC, parameters.replace("noalias readonly ", ""))
        start = f"define internal {result} @{name}({parameters}) #{attributes} {{"
        for line in contract(lines[1:], _split, self.declare):
            self.line(line)
        dummies = [
            text
            for type_, place in self.dummies.items()
            for text in (
                f"  {place}.a = alloca {type_}, align 16",
                f"  {place} = addrspacecast ptr {place}.a to {GENERIC}",
            )
        ]
        self.out[1:1] = dummies
        return "\n".join([start, *self.out])

    @staticmethod
    def count_arguments(lines: list[str]) -> int:
        """How many entries of the table of arguments the function reads."""
        count = 0
        for line in lines:
            if line.endswith("load ptr, ptr %a0, align 8"):
                count = max(count, 1)
            elif match := _ARGUMENT.search(line):
                count = max(count, int(match[1]) + 1)
        return count

    def line(self, line: str) -> None:
        if "alloca" in line and (match := _ALLOCA.match(line)):
            name, type_, count, align = match.groups()
            type_ = _POINTER.sub(GENERIC, type_)
            if count:
                type_ = f"[{count} x {type_}]"
            self.out.append(f"  {name}.a = alloca {type_}, align {align}")
            self.out.append(f"  {name} = addrspacecast ptr {name}.a to {GENERIC}")
            return
        if "getelementptr" in line and (match := _VECTOR_GEP.match(line)):
            name, element, base, index_type, _, index = match.groups()
            self.lanes[name] = _Lanes(element, base, index_type, index)
            return
        if "@llvm.masked." in line and (match := _MASKED.match(line)):
            getattr(self, match[2])(match[1], _split(match[3]))
            return
        if "trunc " in line and (match := _TRUNCATE.match(line)):
            self.truncated[match[1]] = (match[2], match[3])
        if "ext " in line and (match := _EXTEND.match(line)) and match[4] in self.truncated:
            self.extend_truncated(match[1], match[2], match[3], *self.truncated[match[4]], match[5])
            return
        if "itofp" in line and (match := _BOOL_TO_FLOAT.match(line)):
            result, bools, value, type_ = match.groups()
            one = llvm_ir.floating(type_, 1.0).ref
            self.out.append(
                f"  {result} = select {bools} {value}, {type_} {one}, {type_} {llvm_ir.zero(type_).ref}"
            )
            return
        if "vector.reduce" in line and (match := _ANY.match(line)):
            self.any_lane(match[1], int(match[2]), match[3])
            return
        if "i.sat." in line and (match := _SATURATING.match(line)):
            # Devices differ in what they make of NaN.
            result, type_, name, floating, value = match.groups()
            converted = self.emit(f"call {type_} {name}({floating} {value})")
            is_nan = self.emit(f"fcmp uno {floating} {value}, {value}")
            zero = llvm_ir.zero(type_)
            bools = llvm_ir.vector("i1", llvm_ir.lanes_of(type_))
            self.out.append(
                f"  {result} = select {bools} {is_nan}, {type_} {zero.ref}, {type_} {converted}"
            )
            return
        match = _CALL.match(line) if line.startswith("  call void @") else None
        if match is not None and match[2] in self.kernels:
            line = f"{match[1]}{match[2]}.body{match[3]}"
        self.out.append(self.operands(line))

    @staticmethod
    def operands(line: str) -> str:
        """The line with generic pointers."""
        if "ptr" in line:
            line = _POINTER.sub(GENERIC, line)
            if "@table" in line:
                line = _TABLE.sub(lambda m: f"addrspacecast ({GLOBAL} {m[0]} to {GENERIC})", line)
            if "@llvm." in line:
                line = _mangled(line)
        return line

    def extend_truncated(
        self, result: str, opcode: str, narrow: str, type_: str, value: str, wide: str
    ) -> None:
        """An extension (to ``wide``) of the low bits (as many as ``narrow`` has) of ``value``, all in its own type.

        LLVM merges a trunc and an ext of its result into an `and` whose operands have different widths.
        """
        bits, low, last = (int(llvm_ir.scalar_of(t)[1:]) for t in (type_, narrow, wide))
        if opcode == "zext":
            mask = llvm_ir.integer(type_, (1 << low) - 1).ref
            value = self.emit(f"and {type_} {value}, {mask}")
        else:
            by = llvm_ir.integer(type_, bits - low).ref
            value = self.emit(f"shl {type_} {value}, {by}")
            value = self.emit(f"ashr {type_} {value}, {by}")
        change = "bitcast" if last == bits else "trunc" if last < bits else opcode
        self.out.append(f"  {result} = {change} {type_} {value} to {wide}")

    def any_lane(self, result: str, count: int, vector: str) -> None:
        """Whether any lane is set, by halving: LLVM would make an integer of as many bits of it."""
        while count > 2:
            half = count // 2
            parts = []
            for start in (0, half):
                numbers = ", ".join(f"i32 {start + n}" for n in range(half))
                text = f"shufflevector <{count} x i1> {vector}, <{count} x i1> poison, <{half} x i32> <{numbers}>"
                parts.append(self.emit(text))
            vector, count = self.emit(f"or <{half} x i1> {parts[0]}, {parts[1]}"), half
        lanes = [self.emit(f"extractelement <2 x i1> {vector}, i64 {n}") for n in range(2)]
        self.out.append(f"  {result} = or i1 {lanes[0]}, {lanes[1]}")

    # ------------------------------------------------------------------------------------------- masked memory
    def fresh_name(self) -> str:
        self.fresh += 1
        return f"%l{self.fresh}"

    def emit(self, text: str) -> str:
        name = self.fresh_name()
        self.out.append(f"  {name} = {text}")
        return name

    def dummy(self, type_: str) -> str:
        return self.dummies.setdefault(type_, f"%dummy{len(self.dummies)}")

    def lane_addresses(self, pointer: str, count: int, type_: str) -> list[str]:
        """The address of each lane, for an operand that is a vector of pointers or the address of the first."""
        lanes = self.lanes.get(pointer)
        addresses = []
        for n in range(count):
            if lanes is None:
                index = str(n)
                base, element = pointer, type_
            else:
                index = self.emit(f"extractelement {lanes.index_type} {lanes.index}, i64 {n}")
                base, element = lanes.base, lanes.element
            base = self.operands(f"ptr {base}")
            addresses.append(self.emit(f"getelementptr inbounds {element}, {base}, i64 {index}"))
        return addresses

    def guarded(self, address: str, mask: tuple[str, str], lane: int, type_: str) -> str | None:
        """The address if the lane is on, else a dummy's; None if it is known to be off."""
        known = _lane_of_constant(mask[1], lane)
        if known is not None:
            return address if known else None
        bit = self.emit(f"extractelement {mask[0]} {mask[1]}, i64 {lane}")
        return self.emit(f"select i1 {bit}, {GENERIC} {address}, {GENERIC} {self.dummy(type_)}")

    def load_lanes(self, result: str, pointer: str, align: int, mask: str, otherwise: str) -> None:
        vector, value = _operand(otherwise)
        count, type_ = llvm_ir.lanes_of(vector), llvm_ir.scalar_of(vector)
        mask_operand = _operand(mask)
        addresses = self.lane_addresses(pointer, count, type_)
        for n, address in enumerate(addresses):
            place = self.guarded(address, mask_operand, n, type_)
            if place is None:
                continue
            loaded = self.emit(f"load {type_}, {GENERIC} {place}, align {align}")
            if place != address:  # a lane that is off takes its value from `otherwise`
                bit = self.emit(f"extractelement {mask_operand[0]} {mask_operand[1]}, i64 {n}")
                old = self.emit(f"extractelement {vector} {value}, i64 {n}")
                loaded = self.emit(f"select i1 {bit}, {type_} {loaded}, {type_} {old}")
            value = self.emit(f"insertelement {vector} {value}, {type_} {loaded}, i64 {n}")
        self.out.append(f"  {result} = bitcast {vector} {value} to {vector}")

    def store_lanes(self, value: str, pointer: str, align: int, mask: str) -> None:
        vector, ref = _operand(value)
        count, type_ = llvm_ir.lanes_of(vector), llvm_ir.scalar_of(vector)
        for n, address in enumerate(self.lane_addresses(pointer, count, type_)):
            place = self.guarded(address, _operand(mask), n, type_)
            if place is None:
                continue
            lane = self.emit(f"extractelement {vector} {ref}, i64 {n}")
            self.out.append(f"  store {type_} {lane}, {GENERIC} {place}, align {align}")

    def gather(self, result: str, operands: list[str]) -> None:
        pointer, align = _pointer(operands[0])
        self.load_lanes(result, pointer, align, operands[1], operands[2])

    def load(self, result: str, operands: list[str]) -> None:
        pointer, align = _pointer(operands[0])
        self.load_lanes(result, pointer, align, operands[1], operands[2])

    def scatter(self, _: str, operands: list[str]) -> None:
        pointer, align = _pointer(operands[1])
        self.store_lanes(operands[0], pointer, align, operands[2])

    def store(self, _: str, operands: list[str]) -> None:
        self.scatter(_, operands)


def _split(text: str) -> list[str]:
    """The operands of a call."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        if character in "<([{":
            depth += 1
        elif character in ">)]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _operand(text: str) -> tuple[str, str]:
    """Type and value of an operand of vector type."""
    end = text.index(">") + 1
    return text[:end], text[end:].strip()


def _pointer(text: str) -> tuple[str, int]:
    """The name and the alignment of an operand ``ptr align 4 %x`` or ``<8 x ptr> align 4 %x``."""
    words = text.split()
    return words[-1], int(words[words.index("align") + 1])


def _lane_of_constant(value: str, lane: int) -> bool | None:
    """One lane of a constant mask; None if the mask is not a constant."""
    if value.startswith("%"):
        return None
    if value == "splat (i1 true)":
        return True
    if value in ("zeroinitializer", "splat (i1 false)"):
        return False
    return _split(value[1:-1])[lane] == "i1 true"
