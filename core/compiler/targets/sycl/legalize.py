"""From the kernel IR that generators write to the LLVM IR that SPIR-V can hold.

Element generators write for a flat memory: one kind of pointer, vectors of pointers for gathers, masked loads and
stores. OpenCL has address spaces, and SPIR-V neither vectors of pointers nor masks. This module writes each function
again, instruction by instruction. :data:`RULES` is the table of what becomes something else:

* every ``ptr`` becomes a pointer to the *generic* address space (4), which can point at global and private memory;
  ``alloca`` and tables of constants are cast to it where they are made;
* a kernel's function becomes a function that is inlined, and gets an OpenCL kernel of its name:
  ``f(global T* a0, ..., i64 count, i64 chunk)``, whose work-item number i does units
  [i * chunk, min((i + 1) * chunk, count)); where work-items share units, i is the number of the work-group;
* gathers, scatters, masked loads and masked stores become scalar loads and stores of the lanes. A lane that the mask
  leaves out uses a dummy on the stack instead of its address, so there are no branches.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Set
from typing import Any, Final, NamedTuple

from ...codegen import llvm_ir
from ...codegen.llvm_ir import Function, Instruction, Value, text
from .contract import contractions

GENERIC: Final = "ptr addrspace(4)"
GLOBAL: Final = "ptr addrspace(1)"
GLOBAL_ID: Final = "_Z13get_global_idj"
GROUP_ID: Final = "_Z12get_group_idj"
_TABLE: Final = "internal addrspace(1) constant"
_EXPANDED: Final = ("llvm.masked.", "llvm.vector.reduce.or.")
_INTEGERS: Final = r"((?:<\d+ x )?i(\d+)>?)"
_TRUNC: Final = re.compile(rf"  (\S+) = trunc (?:nuw |nsw )*{_INTEGERS} (\S+) to ")
_ZEXT: Final = re.compile(rf"  (\S+) = zext (?:nneg )?(?:<\d+ x )?i(\d+)>? (\S+) to {_INTEGERS}")


def legalize(
    module: llvm_ir.Module,
    attributes: str,
    groups: Set[str] = frozenset(),
    work_group: int = 1,
    sub_group: int = 1,
) -> str:
    """The text of ``module`` for spirv64. ``attributes``: of every function; ``groups``: the kernels whose units are
    done by ``work_group`` work-items each, in sub-groups of ``sub_group`` (1: any).
    """
    parts = list(module.header)
    parts += [text.table_of(table, _TABLE) for table in module.globals.values()]
    kernels: list[str] = []
    bodies = {f.name for f in module.functions.values() if f.arrays is not None}
    for function in module.functions.values():
        parts.append(_Rewriter(module, function, bodies).rewrite())
        is_launched = module.launched is None or function.name in module.launched
        if function.arrays is not None and is_launched:
            size = work_group if function.name in groups else 1
            kernels.append(_kernel(function.name, function.arrays, size, sub_group, work_group > 1))
    parts += kernels
    for name, (result, arguments) in module.declarations.items():
        if name not in module.functions and not name.startswith(_EXPANDED):
            line = text.declaration(
                _intrinsic(name), generic_type(result), [*map(generic_type, arguments)]
            )
            # Calls that no work-item may make without the others of its group stay where they are.
            parts.append(f"{line} convergent" if name.startswith("_Z") else line)
    if kernels:
        parts += [f"declare spir_func i64 @{name}(i32)" for name in (GLOBAL_ID, GROUP_ID)]
        if "llvm.smin.i64" not in module.declarations:
            parts.append("declare i64 @llvm.smin.i64(i64, i64)")
    for group, number in module.attributes.items():
        # What is marked cold or noinline stays so.
        parts.append(f"attributes #{number} = {{ {group} }}")
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


@functools.cache
def generic_type(type_: str) -> str:
    """``type_`` with generic pointers."""
    return type_ if "addrspace" in type_ else type_.replace("ptr", GENERIC)


def _generic(value: Value) -> Value:
    """An operand with a generic pointer's type: a table of constants is cast to it."""
    if value.type != "ptr":
        return value
    ref = f"addrspacecast ({GLOBAL} {value.ref} to {GENERIC})" if value.is_global else value.ref
    return Value(GENERIC, ref, value.number, value.constant)


def _intrinsic(name: str) -> str:
    """The name of an intrinsic that is overloaded by a pointer type."""
    return name.replace(".p0", ".p4") if name.startswith("llvm.") else name


class _Rewriter(llvm_ir.Builder):
    """Writes one function again. What it adds is numbered behind the function's own values."""

    def __init__(
        self, module: llvm_ir.Module, function: Function, kernels: Collection[str]
    ) -> None:
        self.source = function
        is_kernel = function.arrays is not None
        super().__init__(
            module,
            f"{function.name}.body" if is_kernel else function.name,
            [generic_type(a.type) for a in function.arguments],
            function.result,
            attributes=function.attributes,
            linkage="internal",
        )
        self.count = function.values
        self.kernels = kernels  # of the module: sequences call them
        self.contractions = contractions(function)
        self.vectors: dict[int, Instruction] = {}  # what makes vectors of addresses
        self.dummies: dict[str, Value] = {}  # type -> a place on the stack that nobody reads
        self._dummy_lines: list[Instruction] = []

    def rewrite(self) -> str:
        self.function.blocks = []
        for block in self.source.blocks:
            self.start_block(block.label)
            for instruction in block.instructions:
                for rule in RULES.get(instruction.code, ()):
                    if rule.when(self, instruction):
                        rule.write(self, instruction)
                        break
                else:
                    self.keep(instruction)
        self.function.blocks[0].instructions[0:0] = self._dummy_lines
        group = self.module.attribute_group(self.source.attributes)
        head = text.head_of(self.function, self.function.linkage, group)
        return head + text.body_of(self.function.blocks)

    def keep(self, i: Instruction) -> None:
        """The instruction as it is, but with generic pointers."""
        result = i.result
        for operand in i.operands:
            if operand.type == "ptr":
                break
        else:
            if result is None or result.type != "ptr":
                self.lines.append(i)
                return
        detail = i.detail
        if i.code == "getelementptr":
            detail = generic_type(detail)
        elif i.code == "call":
            detail = f"{detail}.body" if detail in self.kernels else _intrinsic(detail)
        self.put(i.code, result, tuple(map(_generic, i.operands)), i.flags, detail)

    def put(
        self,
        code: str,
        result: Value | None,
        operands: tuple[Value, ...],
        flags: str = "",
        detail: Any = None,
    ) -> None:
        """An instruction that makes what another one made before."""
        if result is not None:
            result = _generic(result)
        self.lines.append(Instruction(code, result, operands, flags, detail))

    # ------------------------------------------------------------------------------------------------------ memory
    def alloca_as_generic(self, i: Instruction) -> None:
        type_, count, align = i.detail
        type_ = generic_type(type_)
        if count > 1:
            type_ = f"[{count} x {type_}]"
        place = self._emit("alloca", "ptr", (), "", (type_, 1, align))
        self.put("addrspacecast", i.result, (place,))

    def note_vector(self, i: Instruction) -> None:
        assert i.result is not None
        self.vectors[i.result.number] = i

    def dummy(self, type_: str) -> Value:
        if type_ not in self.dummies:
            place, cast = self._fresh("ptr"), self._fresh(GENERIC)
            self._dummy_lines += [
                Instruction("alloca", place, (), "", (type_, 1, 16)),
                Instruction("addrspacecast", cast, (place,)),
            ]
            self.dummies[type_] = cast
        return self.dummies[type_]

    def addresses(self, place: Value, count: int, type_: str) -> list[Value]:
        """The address of each lane: ``place`` is a vector of pointers, or the address of the first."""
        made = self.vectors.get(place.number)
        addresses = []
        for n in range(count):
            if made is None:
                base, element, index = place, type_, llvm_ir.i64(n)
            else:
                base, indices = made.operands
                element, index = made.detail, self.extract(indices, n)
            operands = (_generic(base), index)
            addresses.append(self._emit("getelementptr", GENERIC, operands, "inbounds", element))
        return addresses

    def guarded(self, address: Value, mask: Value, lane: int, type_: str) -> Value | None:
        """The address if the lane is on, else a dummy's; None if it is known to be off."""
        known = mask.constant
        if known is not None:
            is_on = known[lane] if isinstance(known, tuple) else known
            return address if is_on else None
        return self.select(self.extract(mask, lane), address, self.dummy(type_))

    def load_lanes(self, i: Instruction) -> None:
        place, mask, value = i.operands
        type_ = llvm_ir.scalar_of(value.type)
        for n, address in enumerate(self.addresses(place, llvm_ir.lanes_of(value.type), type_)):
            guarded = self.guarded(address, mask, n, type_)
            if guarded is None:
                continue
            loaded = self.load(type_, guarded, i.detail)
            if guarded is not address:  # a lane that is off keeps what `value` has
                bit = self.extract(mask, n)
                loaded = self.select(bit, loaded, self.extract(value, n))
            value = self.insert(value, loaded, n)
        self.put("bitcast", i.result, (value,))

    def store_lanes(self, i: Instruction) -> None:
        value, place, mask = i.operands
        type_ = llvm_ir.scalar_of(value.type)
        for n, address in enumerate(self.addresses(place, llvm_ir.lanes_of(value.type), type_)):
            guarded = self.guarded(address, mask, n, type_)
            if guarded is not None:
                self.store(self.extract(value, n), guarded, i.detail)

    # -------------------------------------------------------------------------------------------------- arithmetic
    def is_contracted(self, i: Instruction) -> bool:
        assert i.result is not None
        return i.result.number in self.contractions

    def leave_out(self, i: Instruction) -> None:
        pass

    def contract(self, i: Instruction) -> None:
        assert i.result is not None
        product, which = self.contractions[i.result.number]
        a, b = product.operands
        c = i.operands[1 - which]
        if i.code == "fsub":
            negated = self.fneg(c if which == 0 else a)
            a, c = (a, negated) if which == 0 else (negated, c)
        name = f"llvm.fma.{llvm_ir.mangle(c.type)}"
        self.module.declare(name, c.type, [c.type] * 3)
        self.put("call", i.result, (a, b, c), "", name)

    def is_of_bools(self, i: Instruction) -> bool:
        return llvm_ir.scalar_of(i.operands[0].type) == "i1"

    def bool_to_float(self, i: Instruction) -> None:
        assert i.result is not None
        type_ = i.result.type
        self.put(
            "select",
            i.result,
            (*i.operands, llvm_ir.floating(type_, 1.0), llvm_ir.zero(type_)),
        )

    def any_by_halves(self, i: Instruction) -> None:
        """Whether any lane is set, by halving: LLVM would make an integer of as many bits of it."""
        (vector,) = i.operands
        count = llvm_ir.lanes_of(vector.type)
        while count > 2:
            count //= 2
            nothing = llvm_ir.poison(vector.type)
            low, high = (self.shuffle(vector, nothing, range(at, at + count)) for at in (0, count))
            vector = self.binary("or", low, high)
        self.put("or", i.result, (self.extract(vector, 0), self.extract(vector, 1)))

    def is_saturating(self, i: Instruction) -> bool:
        name: str = i.detail
        return name.startswith(("llvm.fptosi.sat.", "llvm.fptoui.sat."))

    def saturate(self, i: Instruction) -> None:
        """Devices differ in what they make of NaN: here it becomes 0."""
        assert i.result is not None
        type_ = i.result.type
        converted = self._emit("call", type_, i.operands, "", i.detail)
        is_nan = self.fcmp("uno", *i.operands * 2)
        self.put("select", i.result, (is_nan, llvm_ir.zero(type_), converted))


class Rule(NamedTuple):
    """How an instruction is written where ``when`` holds."""

    code: str
    when: Callable[[_Rewriter, Instruction], bool]
    write: Callable[[_Rewriter, Instruction], None]


def _always(rewriter: _Rewriter, instruction: Instruction) -> bool:
    return True


def _makes_vector(rewriter: _Rewriter, instruction: Instruction) -> bool:
    return instruction.result is not None and instruction.result.type[0] == "<"


def _table(*rules: Rule) -> dict[str, tuple[Rule, ...]]:
    """The rules by the code of the instruction. The first that holds is taken."""
    codes = dict.fromkeys(rule.code for rule in rules)
    return {code: tuple(rule for rule in rules if rule.code == code) for code in codes}


# What no rule says stays as it is, but for its pointers.
RULES: Final = _table(
    Rule("alloca", _always, _Rewriter.alloca_as_generic),
    Rule("getelementptr", _makes_vector, _Rewriter.note_vector),
    Rule("gather", _always, _Rewriter.load_lanes),
    Rule("masked load", _always, _Rewriter.load_lanes),
    Rule("scatter", _always, _Rewriter.store_lanes),
    Rule("masked store", _always, _Rewriter.store_lanes),
    Rule("fmul", _Rewriter.is_contracted, _Rewriter.leave_out),
    Rule("fadd", _Rewriter.is_contracted, _Rewriter.contract),
    Rule("fsub", _Rewriter.is_contracted, _Rewriter.contract),
    Rule("uitofp", _Rewriter.is_of_bools, _Rewriter.bool_to_float),
    Rule("any", _always, _Rewriter.any_by_halves),
    Rule("call", _Rewriter.is_saturating, _Rewriter.saturate),
)


def merge_extensions(text: str) -> str:
    """LLVM IR in which no zext of a trunc's result has three different widths: the low bits of a value are taken in the
    value's own type.

    The OpenCL compiler of ``intel-opencl-rt`` makes an `and` of the pair whose operands have different widths, and ends
    or refuses that afterwards. This is done to optimised IR: LLVM makes such pairs of variables that are read in parts,
    and of functions that are inlined.
    """
    lines: list[str] = []
    truncated: dict[str, tuple[str, str, int]] = {}  # what a trunc took: its name, type and bits
    for line in text.split("\n"):
        if line.startswith("define "):
            truncated.clear()
        elif " trunc " in line and (found := _TRUNC.match(line)) is not None:
            name, type_, bits, value = found.groups()
            truncated[name] = (value, type_, int(bits))
        elif " zext " in line and (found := _ZEXT.match(line)) is not None:
            name, low, narrow, last_type, last = found.groups()
            value, type_, bits = truncated.get(narrow, ("", "", int(last)))
            if low != "1" and bits != int(last):
                # A number, as values without names have, may not begin a name.
                wide, mask = f"%low.{name[1:]}", str((1 << int(low)) - 1)
                if type_.startswith("<"):
                    mask = f"splat (i{bits} {mask})"
                lines.append(f"  {wide} = and {type_} {value}, {mask}")
                change = "trunc" if int(last) < bits else "zext"
                line = f"  {name} = {change} {type_} {wide} to {last_type}"
                if change == "trunc":  # which another zext may follow
                    truncated[name] = (wide, type_, bits)
        lines.append(line)
    return "\n".join(lines)
