"""Native code through LLVM: parse the IR, run a short pass pipeline, emit an object, link it into an image."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

from ...codegen import llvm_ir
from ...ir import verifier
from ...ir.errors import internal
from .. import llvm_library
from ..image import Image
from ..target import Compilation, Libraries
from . import cpu, linker, masks
from .costs import USUAL_THREADS, costs_of, costs_with_threads
from .parts import Parts
from .text_target import TextTarget

_X86_TRIPLE = "x86_64-unknown-linux-gnu"
_AARCH64_TRIPLE = "aarch64-unknown-linux-gnu"
# The value that a masked store writes, and its lanes where they are constant.
_MASKED_STORE: Final = re.compile(
    r"@llvm\.masked\.store\.\S+\(<\d+ x \w+> (%\w+), .*<\d+ x i1> <([^<>]*)>\)"
)


# Options of LLVM that leave out passes of code generation which look, in every function, for what kernels do not have:
# comparisons of memory, calls of libraries, constants that take several instructions, short blocks to copy.
_PASSES_WITHOUT_WORK: Final = (
    "-disable-mergeicmps",
    "-disable-partial-libcall-inlining",
    "-disable-constant-hoisting",
    "-disable-early-taildup",
    "-disable-tail-duplicate",
)
# The same on x86: short blocks to turn into selections, masks to keep in general registers, loads that are wider than
# the stores before them. An LLVM without code for x86 does not know these options. (It says nothing about one that it
# does not know, so a newer one may lack some.)
_X86_PASSES_WITHOUT_WORK: Final = (
    "-x86-early-ifcvt=0",
    "-disable-x86-domain-reassignment",
    "-x86-disable-avoid-SFB",
)


class HostTarget(TextTarget):
    """A CPU. Make one with :func:`for_cpu`."""

    calls_vectors = True
    packs_products = True

    @property
    def machine(self) -> int:
        return linker.EM_X86_64 if self.is_x86 else linker.EM_AARCH64

    def start(self, *, dump: bool = False) -> Compilation:
        return Parts(self, dump, cached=not dump)

    def compile(self, module: llvm_ir.Module, *, dump: bool = False) -> Image:
        with contextlib.closing(Parts(self, dump, cached=False)) as compilation:
            return compilation.finish(module)

    def compile_object(
        self, text: str, quick: bool = False, *, dump: bool = False
    ) -> linker.Object:
        if not dump:
            return linker.read(self.elf_object(text, quick))
        machine = self._machine(quick)
        with self._read(text) as parsed:
            _optimise_checked(parsed, machine, text)
            optimised = str(parsed)  # before LLVM prepares it for generating code
            assembly = machine.emit_assembly(parsed)
        made = linker.read(self._assemble(assembly, text, machine))
        made.optimised_ir = optimised
        made.assembly = assembly
        return made

    def _machine(self, quick: bool = False) -> Any:
        return _machine(self.triple, (*self.features, *cpu.tuning(self.cpu)), quick)

    def elf_object(self, text: str, quick: bool) -> bytes:
        """What LLVM makes of a module's text."""
        machine = self._machine(quick)
        with self._read(text) as parsed:
            _optimise_checked(parsed, machine, text)
            return bytes(machine.emit_object(parsed))

    def _read(self, text: str) -> Any:
        """A module's text as LLVM is to compile it."""
        return _parse(masks.hidden(text) if masks.are_moved_wrongly(self.features) else text)

    def _assemble(self, assembly: str, text: str, machine: Any) -> bytes:
        """The object of what ``text`` was compiled to: what runs is what the dump shows, at a twentieth of the time of
        generating the code again. (It differs from the other way in how no-ops of padding are spelled.)
        """
        # llvmlite has the assembler of the machine that it runs on.
        if self.triple != llvm.get_process_triple():
            with self._read(text) as parsed:
                _optimise(parsed, machine)
                return bytes(machine.emit_object(parsed))
        llvm.initialize_native_asmparser()
        lines = [line.replace("\\", "\\5C").replace('"', "\\22") for line in assembly.splitlines()]
        module = [f'target triple = "{self.triple}"', f'target datalayout = "{self.data_layout}"']
        module += [f'module asm "{line}"' for line in lines]
        with _parse("\n".join(module)) as parsed:
            return bytes(machine.emit_object(parsed))

    def optimised_ir(self, text: str) -> str:
        with self._read(text) as parsed:
            _optimise(parsed, self._machine())
            return str(parsed)


def _optimise_checked(module: Any, machine: Any, text: str) -> None:
    """The same as :func:`_optimise` of the module that was read from ``text``, with a check where that is enabled."""
    _optimise(module, machine)
    if "@llvm.masked.store." in text and verifier.enabled():
        _check_masked_stores(str(module))


def _check_masked_stores(optimised: str) -> None:
    """Raise CompileError INTERNAL for a masked store that LLVM 22.1.0 would write too wide: of a truncated vector, in
    one lane (llvm/llvm-project#179489). The builder writes none, but LLVM could make one of a mask that it finds to be
    constant.
    """
    for function in optimised.split("\n}\n"):
        for value, lanes in _MASKED_STORE.findall(function):
            if lanes.count("true") == 1 and f"{value} = trunc " in function:
                raise internal(
                    f"LLVM would write more than one element of {value}, in the lanes <{lanes}>"
                )


@functools.cache
def for_cpu(model: str = "host", onednn: bool = True, threads: int = USUAL_THREADS) -> HostTarget:
    """The target for ``model``: ``"host"`` (the CPU that runs this) or a name such as ``"x86-64-v2"``.

    ``onednn``: whether the runtime finds oneDNN where the program runs; there is one for x86-64 only. ``threads``: for
    how many work is cut.

    Raises CompileError INVALID_ARGUMENT for an unknown name, and FAILED_PRECONDITION for an LLVM that is too old.
    """
    _initialise()
    name, features = cpu.describe(model)
    triple = _AARCH64_TRIPLE if cpu.is_aarch64(model) else _X86_TRIPLE
    if model in ("", "host", "native") and not llvm.get_process_triple().startswith("x86_64"):
        triple = _AARCH64_TRIPLE
    width = cpu.vector_bytes(features)
    attributes = ["nounwind"]
    if triple == _X86_TRIPLE:
        bits = width * 8
        attributes += [f'"prefer-vector-width"="{bits}"', f'"min-legal-vector-width"="{bits}"']
        attributes.append(
            f'"tune-cpu"="{"generic" if name.startswith("x86-64") else name.partition("+")[0]}"'
        )
    libraries = Libraries(onednn and triple == _X86_TRIPLE, frozenset(features))
    versions = [str(llvm.llvm_version_info), llvmlite.__version__]
    made_for = [f"onednn={libraries.onednn}", f"threads={threads}"]
    text = "|".join([triple, name, *features, *made_for, *versions])
    return HostTarget(
        name="host",
        triple=triple,
        data_layout=str(_machine(triple, features).target_data),
        cpu=name,
        features=features,
        vector_bytes=width,
        function_attributes=" ".join(attributes),
        fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
        libraries=libraries,
        costs=costs_with_threads(costs_of(name, frozenset(features)), threads),
    )


def _parse(text: str) -> Any:
    """An LLVM module in a context of its own: types and constants die with it."""
    try:
        return llvm.parse_assembly(text, llvm.context.create_context())
    except RuntimeError as error:
        raise internal(f"LLVM rejects the generated IR: {error}") from error


@functools.cache
def _initialise() -> None:
    llvm_library.initialise()
    # Loop strength reduction takes a fifth of the time of generating code and gains nothing here: kernels are written
    # with addresses hoisted as far as they go, and what is left fits x86's and Arm's addressing modes.
    llvm.set_option("", "-disable-lsr")
    # Kernels come out the same without these, in a fifteenth less of the time of generating code.
    for option in _PASSES_WITHOUT_WORK:
        llvm.set_option("", option)
    if llvm.get_process_triple().startswith("x86_64"):
        for option in _X86_PASSES_WITHOUT_WORK:
            llvm.set_option("", option)


@functools.cache
def _machine(triple: str, features: tuple[str, ...], quick: bool = False) -> Any:
    """The one TargetMachine of the process for a triple, a feature set and an effort."""
    _initialise()
    generic = "x86-64" if triple == _X86_TRIPLE else "generic"
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=generic,
        features=",".join(f"+{f}" for f in features),
        opt=0 if quick else 2,
        reloc="pic",
        codemodel="small",
    )


def _optimise(module: Any, machine: Any) -> None:
    """A short pipeline: kernels are written with explicit vectors and hoisted code, so cleaning up is all there
    is to do.

    Against LLVM's O1 this takes a tenth of the time, for the same speed of the kernels.
    """
    with (
        llvm.create_pass_builder(
            machine, llvm.create_pipeline_tuning_options(speed_level=1)
        ) as builder,
        llvm.create_new_module_pass_manager() as passes,
    ):
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()  # address tables of sequences,
        passes.add_sroa_pass()  # and then what the addresses in them lead to
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(module, builder)
