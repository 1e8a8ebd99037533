"""SPIR-V through LLVM: legalise the IR, inline, emit a SPIR-V module.

The code of an artifact for this target holds two pieces: the SPIR-V module with all kernels, and an image of native
code with the functions that the host's library calls call back (comparators of sorts)::

    spirv_size   u64
    image_size   u64
    spirv        spirv_size bytes, at offset 16
    image        image_size bytes, at the next multiple of 4096 (empty if there are none)

A kernel's function offset is that of its name in the SPIR-V (in its OpEntryPoint, ended by a zero byte); offsets of
callbacks and imports lie in the image. All are relative to the start of the code.

Schedules by kind of device. On a CPU a work-item does a block of work in explicit vectors of up to 16 lanes, in a
work-group of its own: a device compiler vectorises across work-items, which gains nothing over explicit vectors and
loses with loops inside a work-item. On a GPU a work-item works on single elements.
"""

from __future__ import annotations

import functools
import hashlib
import re
import struct
from dataclasses import dataclass
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from ...codegen import llvm_ir
from ...ir import dtypes, hlo
from ...ir.errors import CompileError, internal, invalid_argument, of_instruction
from .. import llvm_library
from ..child import result_of
from ..image import Image
from ..target import Libraries, Target
from .costs import costs_of
from .disassemble import disassemble
from .legalize import legalize, merge_extensions
from .spirv import capabilities, kernel_names

TRIPLE: Final = "spirv64-unknown-unknown"
HEADER: Final = struct.Struct("<QQ")
PAGE: Final = 4096
KINDS: Final = ("cpu", "gpu")
ASPECTS: Final = ("fp16", "fp64", "sub-groups")
WORK_GROUP: Final = 64  # work-items that share a unit, on a GPU
SUB_GROUP: Final = 16  # of them with shuffles, on devices with sub-groups of that size

# OpenCL's functions, mangled.
LOCAL_ID: Final = "_Z12get_local_idj"
BARRIER: Final = "_Z7barrierj"
SHUFFLE_XOR: Final = "_Z21sub_group_shuffle_xor"
_MANGLED: Final = {"i8": "h", "i16": "t", "i32": "j", "i64": "m", "float": "f", "double": "d"}

# What SPIR-V lacks, or LLVM's SPIR-V backend gets wrong or ends the process over.
_ILLEGAL: Final = re.compile(
    r"<(?!2 x|3 x|4 x|8 x|16 x)\d+ x |\bi(?!1\b|8\b|16\b|32\b|64\b)\d+\b|\bbfloat\b"
)
_MOVES: Final = frozenset(
    ["parameter", "constant", "tuple", "get-tuple-element", "broadcast", "reshape", "transpose"]
    + ["slice", "concatenate", "bitcast", "copy"]
)
_LIFETIME: Final = re.compile(r"^ *call void @llvm\.lifetime\.\w+\.p\d\(.*\n", re.MULTILINE)
_COMMENT_OR_NAME: Final = re.compile(r';.*|^[\w.]+:|"[^"]*"|[%@][\w.$]+')


class SyclModule(llvm_ir.Module):
    """Kernels, and the functions of the program that the host calls (``callbacks``)."""

    keeps_instructions = True
    hides_conversions = False  # SPIR-V has nothing that hides them

    def __init__(self, triple: str, data_layout: str, callbacks: llvm_ir.Module) -> None:
        super().__init__(triple, data_layout)
        self.callbacks = callbacks
        self.group_functions: set[str] = set()  # whose work-items share units
        self.legal = ""  # its text for SPIR-V, once that is made

    def identity(self) -> str:
        return f"{super().identity()}\n{self.callbacks}"


@dataclass(frozen=True)
class SyclTarget(Target):
    """A SYCL device. Make one with :func:`for_device`. ``host``: the CPU that library calls run on."""

    host: Target | None = None

    assembly_suffix = "spvasm"

    def can_mask(self, size: int) -> bool:
        return False

    @property
    def has_native_half(self) -> bool:
        """f16 is converted by integer arithmetic: exact, on devices without fp16 too, and the compiler of the OpenCL
        CPU device does not come back from loops with conversions of half vectors.
        """
        return False

    @property
    def has_double(self) -> bool:
        return self.has("fp64")

    @property
    def divides_exactly(self) -> bool:
        """On a GPU the quotient of f32 is its driver's, of which OpenCL C demands 2.5 ulp."""
        return self.cpu != "gpu"

    def ulps(self, opcode: str, dtype: dtypes.DType) -> int:
        """On a GPU the square root of f32 is its driver's, of which OpenCL C demands 3 ulp."""
        if self.cpu == "gpu" and opcode == "sqrt" and dtype is dtypes.F32:
            return 3
        return super().ulps(opcode, dtype)

    def module(self) -> SyclModule:
        assert self.host is not None
        return SyclModule(self.triple, self.data_layout, self.host.module())

    def fence_streams(self, builder: llvm_ir.Builder) -> None:
        builder.fence("seq_cst")

    def local_id(self, builder: llvm_ir.Builder) -> llvm_ir.Value:
        assert isinstance(builder.module, SyclModule)
        builder.module.group_functions.add(builder.name)
        return builder.call("i64", LOCAL_ID, [llvm_ir.zero("i32")])

    def shares(self, module: llvm_ir.Module, function: str) -> bool:
        assert isinstance(module, SyclModule)
        return function in module.group_functions

    def barrier(self, builder: llvm_ir.Builder) -> None:
        local_and_global = llvm_ir.integer("i32", 3)
        builder.call("void", BARRIER, [local_and_global])

    def shuffle_xor(
        self, builder: llvm_ir.Builder, value: llvm_ir.Value, mask: int
    ) -> llvm_ir.Value:
        type_ = value.type
        if type_ == "i1":
            value = builder.cast("zext", value, "i8")
        name = SHUFFLE_XOR + _MANGLED[value.type] + "j"
        shuffled = builder.call(value.type, name, [value, llvm_ir.integer("i32", mask)])
        return builder.icmp("ne", shuffled, llvm_ir.zero("i8")) if type_ == "i1" else shuffled

    def callbacks(self, module: llvm_ir.Module) -> tuple[llvm_ir.Module, Target]:
        assert isinstance(module, SyclModule)
        assert self.host is not None
        return module.callbacks, self.host

    def compile(self, module: llvm_ir.Module, *, dump: bool = False) -> Image:
        assert isinstance(module, SyclModule)
        assert self.host is not None
        spirv, optimised, assembly = self.emit(module, dump)
        callbacks = Image(b"", {})
        if module.callbacks.functions:
            callbacks = self.host.compile(module.callbacks)
        offset = -(-(HEADER.size + len(spirv)) // PAGE) * PAGE
        code = HEADER.pack(len(spirv), len(callbacks.code)) + spirv
        if callbacks.code:
            code = code.ljust(offset, b"\0") + callbacks.code
        names = kernel_names(spirv) if spirv else {}
        symbols = {name: HEADER.size + at for name, at in names.items()}
        symbols |= {name: offset + at for name, at in callbacks.symbols.items()}
        imports = [(name, offset + at) for name, at in callbacks.imports]
        image = Image(code, symbols, imports, optimised, assembly)
        if dump:
            image.files["spv"] = spirv
        return image

    def emit(self, module: SyclModule, dump: bool) -> tuple[bytes, str, str]:
        """The SPIR-V module; with ``dump`` also the optimised IR and the assembly."""
        if not module.functions:
            return b"", "", ""
        text = self.legalized(module)
        try:
            spirv, optimised = _emit(text, split=True)
        except CompileError:
            # Splitting memory into registers may cut odd widths out of integers, which the device's compiler can do,
            # or leave constants of which LLVM makes no SPIR-V.
            spirv, optimised = _emit(text, split=False)
        self.check_capabilities(spirv)
        return spirv, optimised, disassemble(spirv) if dump else ""

    def legalized(self, module: SyclModule) -> str:
        """The module's text for SPIR-V. The instructions are gone afterwards: with them in memory, compiling took 3 %
        longer.
        """
        if not module.legal:
            module.legal = legalize(
                module,
                self.function_attributes,
                module.group_functions,
                self.work_group,
                self.sub_group,
            )
            module.forget_instructions()
        return module.legal

    def check(self, module: llvm_ir.Module, instruction: hlo.Instruction) -> None:
        if self.has_double or not next(reversed(module.functions.values())).has_scalar("double"):
            return
        inside = instruction.called[0].instructions if instruction.opcode == "fusion" else ()
        wide = [i for i in (*inside, instruction) if _is_wide(i) and i.opcode not in _MOVES]
        raise of_instruction(
            "UNIMPLEMENTED",
            f"computes with 64-bit floats, which the device ({self.cpu}) does not have; use 32-bit "
            "floats, or run the program on the CPU (TRIPONT_DEVICE=host)",
            wide[0] if wide else instruction,
        )

    def check_capabilities(self, spirv: bytes) -> None:
        """Raises CompileError INTERNAL if the module needs what the device lacks: checks before should have said so."""
        needed = capabilities(spirv)
        for capability, aspect in (("Float64", "fp64"), ("Float16", "fp16")):
            if capability in needed and not self.has(aspect):
                raise internal(f"sycl: kernels need {aspect}, which the device lacks")


def _emit(text: str, split: bool) -> tuple[bytes, str]:
    """The SPIR-V module of LLVM IR, and the optimised IR."""
    optimised = _optimise(text, split=split)
    check_legal(optimised)
    what = "LLVM cannot emit SPIR-V for the program"
    return result_of(lambda: bytes(_machine().emit_object(_parse(optimised))), what), optimised


def _is_wide(i: hlo.Instruction) -> bool:
    """Whether an instruction has to do with 64-bit floats."""
    shapes = [s for x in (i, *i.operands) for s in x.result_shapes if isinstance(s, hlo.Shape)]
    return any(s.dtype.component is dtypes.F64 for s in shapes)


def for_device(device: str = "", cpu: str = "host", onednn: bool = True) -> SyclTarget:
    """The target for a device described as ``kind[,aspect...]``: "cpu,fp16,fp64" (the default), "gpu", "gpu,fp64".

    ``cpu``, ``onednn``: those of the host, see :func:`..host.for_cpu`. Raises CompileError INVALID_ARGUMENT, and
    FAILED_PRECONDITION for an LLVM that is too old.
    """
    return _for_device(device or "cpu,fp16,fp64", cpu, onednn)


@functools.cache
def _for_device(device: str, cpu: str, onednn: bool) -> SyclTarget:
    from ..host import for_cpu

    kind, *aspects = device.split(",")
    if kind not in KINDS or not set(aspects) <= set(ASPECTS):
        raise invalid_argument(
            f"unknown SYCL device {device!r}: expected one of {', '.join(KINDS)}, "
            f"followed by what it has of {', '.join(ASPECTS)}"
        )
    # LLVM 20 makes no SPIR-V of classes of floating-point numbers and of conversions that saturate.
    llvm_library.initialise("the target sycl", 22)
    host = for_cpu(cpu, onednn)
    is_cpu = kind == "cpu"
    text = "|".join([device, host.identity, str(llvm.llvm_version_info), llvmlite.__version__])
    return SyclTarget(
        name="sycl",
        triple=TRIPLE,
        data_layout=str(_machine().target_data),
        cpu=kind,
        features=tuple(sorted(aspects)),
        vector_bytes=64 if is_cpu else 16,
        function_attributes="nounwind",
        fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
        libraries=Libraries(host.libraries.onednn, frozenset(host.features), on_gpu=not is_cpu),
        costs=costs_of(kind, host.costs),
        max_lanes=16 if is_cpu else 4,
        block=1024 if is_cpu else 4,
        work_group=1 if is_cpu else WORK_GROUP,
        sub_group=SUB_GROUP if "sub-groups" in aspects and not is_cpu else 1,
        host=host,
    )


@functools.cache
def _machine() -> Any:
    return llvm.Target.from_triple(TRIPLE).create_target_machine(opt=2)


def _parse(text: str) -> Any:
    """An LLVM module in a context of its own: types and constants die with it."""
    try:
        return llvm.parse_assembly(text, llvm.context.create_context())
    except RuntimeError as error:
        raise internal(f"LLVM rejects the legalised IR: {error}") from error


def _optimise(text: str, *, split: bool) -> str:
    """What makes functions fit for SPIR-V; with ``split``, variables on the stack become registers.

    Combining instructions is left to the device's compiler: LLVM's own would make integers of odd widths and wide
    vectors again.
    """
    with (
        _parse(text) as module,
        llvm.create_pass_builder(
            _machine(), llvm.create_pipeline_tuning_options(speed_level=1)
        ) as builder,
        llvm.create_new_module_pass_manager() as passes,
    ):
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        if split:
            passes.add_sroa_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)
        # The inliner marks lifetimes of variables, and the backend fails on those of casted pointers.
        return merge_extensions(_LIFETIME.sub("", str(module)))


def check_legal(text: str) -> None:
    """Raises CompileError INTERNAL for IR that SPIR-V cannot hold: better than what LLVM does with it."""
    for line in text.split("\n"):
        if _ILLEGAL.search(line) is None:
            continue
        found = _ILLEGAL.search(_COMMENT_OR_NAME.sub("", line))
        if found is not None and not line.startswith(("declare", "target", "!")):
            raise internal(f"sycl: SPIR-V has no {found[0].strip()}: {line.strip()}")
