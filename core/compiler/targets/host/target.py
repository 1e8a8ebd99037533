"""Native code through LLVM: parse the IR, run a short pass pipeline, emit an object, link it into an image."""

from __future__ import annotations

import functools
import hashlib
import pickle
from typing import Any

import llvmlite
import llvmlite.binding as llvm

from ...codegen import llvm_ir
from ...errors import internal
from ..child import Child
from ..target import Image, Target
from . import cpu
from .linker import concatenate, link

# Characters of IR, about a fifth of a second of LLVM, from which a module is compiled in several processes. Their
# number does not depend on the machine, so that the code does not.
LARGE = 1 << 19
PARTS = 4
_X86_TRIPLE = "x86_64-unknown-linux-gnu"
_AARCH64_TRIPLE = "aarch64-unknown-linux-gnu"


class HostTarget(Target):
    """A CPU. Make one with :func:`for_cpu`."""

    calls_vectors = True

    def compile(self, module: llvm_ir.Module, *, dump: bool = False) -> Image:
        if not dump and sum(map(len, module.functions)) > LARGE:
            return self._compile_split(module.split(PARTS))
        return self._compile(str(module), dump)

    def _compile_split(self, texts: list[str]) -> Image:
        """The parts of a module, each compiled in a process of its own: the first in this one."""
        children = [
            Child(
                lambda text=text: pickle.dumps(self._compile(text)), "compiling a part of a module"
            )  # type: ignore[misc]
            for text in texts[1:]
        ]
        try:
            images = [self._compile(texts[0])]
        finally:
            results = [child.result() for child in children]
        return concatenate([*images, *map(pickle.loads, results)])

    def _compile(self, text: str, dump: bool = False) -> Image:
        machine = _machine(self.triple, self.features)
        context = llvm.context.create_context()  # a fresh one: types and constants die with it
        try:
            parsed = llvm.parse_assembly(text, context)
        except RuntimeError as error:
            raise internal(f"LLVM rejects the generated IR: {error}") from error
        with parsed:
            _optimise(parsed, machine)
            obj = machine.emit_object(parsed)
            image = link(obj)
            if dump:
                image.optimised_ir = str(parsed)
                image.assembly = machine.emit_assembly(parsed)
        return image


@functools.cache
def for_cpu(model: str = "host") -> HostTarget:
    """The target for ``model``: ``"host"`` (the CPU that runs this) or a name such as ``"x86-64-v2"``.

    Raises CompileError INVALID_ARGUMENT for an unknown name.
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
        attributes.append(f'"tune-cpu"="{"generic" if name.startswith("x86-64") else name}"')
    text = "|".join([triple, name, *features, str(llvm.llvm_version_info), llvmlite.__version__])
    return HostTarget(
        name="host",
        triple=triple,
        data_layout=str(_machine(triple, features).target_data),
        cpu=name,
        features=features,
        vector_bytes=width,
        function_attributes=" ".join(attributes),
        fingerprint=hashlib.sha256(text.encode()).hexdigest()[:16],
    )


@functools.cache
def _initialise() -> None:
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@functools.cache
def _machine(triple: str, features: tuple[str, ...]) -> Any:
    """The one TargetMachine of the process for a triple and feature set."""
    _initialise()
    generic = "x86-64" if triple == _X86_TRIPLE else "generic"
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=generic,
        features=",".join(f"+{f}" for f in features),
        opt=2,
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
