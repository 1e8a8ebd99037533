"""The stages before and after the passes, and the values between them. :mod:`.pipeline` has them in order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass, field, replace

from tripont.core.schema.artifact import DynamicDimension, Import, SizeCheck

from tripont.version import __version__

from .codegen import llvm_ir
from .formats import artifact, hlo_proto
from .formats.artifact import Executable
from .ir.errors import CompileError, internal
from .ir.hlo import Instruction, Module, Shape
from .memory import buffers
from .memory.donation import donated_parameters
from .observe import description
from .observe.dump import ARTIFACT, OPTIMISED_PROTO, Dump
from .targets.image import Image
from .targets.target import Compilation, Target
from .thunks import cost as thunk_cost
from .thunks import emission, lowering
from .thunks.lowering import Lowered
from .xla import partition


@dataclass(frozen=True, slots=True)
class Context:
    """What all stages of a compilation may ask: the target, and where dumps go.

    ``exact``: floats of at most 16 bits are rounded after every operation. ``num_threads``: threads of the host that
    one execution may use, 0 for all of the process. ``overlaps``: collectives may run beside other work. ``resources``
    are closed at the end of the compilation, whether it succeeds or not.
    """

    target: Target
    dump: Dump = field(default_factory=Dump)
    exact: bool = False
    num_threads: int = 0
    overlaps: bool = True
    resources: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True, slots=True)
class Program:
    """A program as it was received: see :func:`.compile.compile_program`."""

    data: bytes
    format: str
    options_proto: bytes = b""


@dataclass(frozen=True, slots=True)
class Scheduled:
    """A module whose instructions stand in the order of execution, and where its values lie."""

    module: Module
    assignment: buffers.Assignment


@dataclass(frozen=True, slots=True)
class Emitted:
    """The thunks of a program and the LLVM IR of all functions that they call, which is being compiled already."""

    lowered: Lowered
    code: llvm_ir.Module
    compilation: Compilation


@dataclass(frozen=True, slots=True)
class Generated:
    """The same with machine code (or SPIR-V) of the functions, and the optimised HLO as a HloModuleProto."""

    lowered: Lowered
    image: Image
    program: bytes


def read(program: Program, context: Context) -> Module:
    """The module that one device runs: what the program says, or what the partitioner makes of it."""
    from .importer.program import read_program, read_signature

    data, format, options_proto = program.data, program.format, program.options_proto
    build = partition.read_options(options_proto)
    whole = None
    decisive = data  # the bytes that decide what is compiled: the program's, unless functions of its process took part
    if not options_proto or (build.num_partitions > 1 and build.use_spmd_partitioning):
        whole = read_signature(data, format)
        if not options_proto:
            build.num_replicas, build.num_partitions = whole.num_replicas, whole.num_partitions
            build.use_spmd_partitioning = whole.is_sharded
    if whole is None or build.num_partitions == 1 or not build.use_spmd_partitioning:
        module = read_program(data, format, context.target.ulps)
    else:
        partitioned = partition.partition(data, format, build)
        module = read_program(partitioned.module, "hlo", context.target.ulps)
        if partitioned.by_functions:
            decisive = partitioned.module
        module.shardings = partitioned.shardings
        module.parameter_memory_kinds = whole.parameter_memory_kinds
        module.result_memory_kinds = whole.result_memory_kinds
        module.parameter_layouts = whole.parameter_layouts
        module.result_layouts = whole.result_layouts
    module.num_replicas = build.num_replicas
    module.num_partitions = build.num_partitions
    module.exact = context.exact
    module.overlaps = context.overlaps
    module.fingerprint = fingerprint(decisive, format, options_proto, context)
    if context.dump.enabled:
        context.dump.begin(module.name)
        for suffix, content in _files_of_program(program):
            context.dump.write(suffix, content)
    return module


def fingerprint(program: bytes, format: str, options_proto: bytes, context: Context) -> str:
    """What identifies a compilation: the program, its options, the compiler's version, the target and those of the
    compiler's options that change the result.
    """
    digest = hashlib.sha256()
    options = f"{context.exact} {context.num_threads} {context.overlaps}"
    version = str(artifact.FORMAT_VERSION)
    for part in (__version__, version, context.target.identity, options, format):
        digest.update(part.encode() + b"\0")
    digest.update(len(options_proto).to_bytes(8, "little") + options_proto)
    digest.update(program)
    return digest.hexdigest()


def _files_of_program(program: Program) -> Iterator[tuple[str, str | bytes]]:
    """The program as it was received, and as StableHLO text."""
    from .importer import bindings, bytecode
    from .importer.program import read_mlir

    if program.format == "hlo":
        yield "received.hlo.pb", program.data
    else:
        suffix = "mlirbc" if bytecode.is_bytecode(program.data) else "mlir"
        yield f"received.{suffix}", program.data
    with suppress(
        CompileError
    ):  # programs that passes cannot read get an error of their own, and no text
        yield "stablehlo.mlir", str(read_mlir(program.data, program.format, bindings.context()))


def assign_buffers(module: Module, context: Context) -> Scheduled:
    """The module with a place in memory for every value."""
    return Scheduled(module, buffers.assign(module))


def files_of_assignment(scheduled: Scheduled, context: Context) -> Iterator[tuple[str, str]]:
    yield "buffer_assignment.txt", buffers.print_assignment(scheduled.assignment)


def lower(scheduled: Scheduled, context: Context) -> Lowered:
    """The thunks of a scheduled module, and which functions they want."""
    return lowering.lower(scheduled.module, scheduled.assignment, context.target.costs.library)


def emit(lowered: Lowered, context: Context) -> Emitted:
    """The functions as LLVM IR. The target may compile the first while the last are being written."""
    read_only = (
        artifact.ALLOCATION_PARAMETER,
        artifact.ALLOCATION_CONSTANT,
        artifact.ALLOCATION_VIEW,
    )
    allocations = enumerate(lowered.assignment.allocations)
    code = context.target.module()
    compilation = context.target.start(dump=context.dump.enabled)
    context.resources.enter_context(closing(compilation))
    emitter = emission.CodeEmitter(
        context.target,
        code,
        compilation,
        frozenset(number for number, a in allocations if a.kind in read_only),
    )
    emission.emit(lowered, emitter)
    code.launched = lowering.launched(lowered)
    return Emitted(lowered, code, compilation)


def files_of_code(emitted: Emitted, context: Context) -> Iterator[tuple[str, str]]:
    yield "ir-no-opt.ll", str(emitted.code)
    yield "thunk_sequence.txt", lowering.print_thunks(emitted.lowered)


def generate(emitted: Emitted, context: Context) -> Generated:
    """The code of all functions. Raises CompileError."""
    lowered = emitted.lowered
    if lowered.symbols:
        emitted.compilation.complete(emitted.code)
    program = hlo_proto.write_module(lowered.module)  # while LLVM compiles
    image = Image(b"", {})
    if lowered.symbols:
        image = emitted.compilation.finish(emitted.code)
    for symbol in emitted.code.launched or ():
        if symbol not in image.symbols:
            raise internal(f"code image lacks {symbol}")
    return Generated(lowered, image, program)


def files_of_image(generated: Generated, context: Context) -> Iterator[tuple[str, str | bytes]]:
    if generated.lowered.symbols:
        yield "ir-with-opt.ll", generated.image.optimised_ir
        yield context.target.assembly_suffix, generated.image.assembly
        yield from generated.image.files.items()
    yield OPTIMISED_PROTO, generated.program


def link(generated: Generated, context: Context) -> Executable:
    """The executable: kernels by their offsets in the code."""
    lowered, image, target = generated.lowered, generated.image, context.target
    module, assignment = lowered.module, lowered.assignment
    entry = module.entry
    parameters = _values(entry.parameters, module.parameter_memory_kinds)
    results = _values(entry.results, module.result_memory_kinds)
    assert module.costs is not None  # see passes/estimate_costs.py
    costs = replace(
        module.costs, optimal_nanoseconds=thunk_cost.of_thunks(lowered.thunks, target.costs.thunks)
    )
    executable = Executable(
        name=module.name,
        target=target.name,
        triple=target.triple,
        cpu=target.cpu,
        cpu_features=target.features,
        compiler_version=__version__,
        fingerprint=module.fingerprint or target.identity,
        parameters=parameters,
        results=results,
        allocations=tuple(assignment.allocations),
        thunks=(),
        code=image.code,
        constants=assignment.constants,
        imports=tuple(Import(*i) for i in image.imports),
        donatable_parameters=donated_parameters(module, parameters, results),
        num_replicas=module.num_replicas,
        num_partitions=module.num_partitions,
        num_threads=context.num_threads,
        visible_results=module.visible_results,
        dynamic_results=tuple(DynamicDimension(*d) for d in module.dynamic_results),
        size_checks=tuple(SizeCheck(*c) for c in module.size_checks),
        costs=costs,
        debug=tuple(lowered.debug),
        program=generated.program,
    )
    if context.dump.enabled:  # before linking, which puts offsets in the place of kernels' names
        context.dump.describe(description.describe(executable, lowered))
    executable.thunks = lowering.link(lowered, image.symbols)
    return executable


def _values(
    instructions: Sequence[Instruction], kinds: Sequence[str]
) -> tuple[artifact.Value, ...]:
    """Arrays of the entry, and the memories that they lie in."""
    values = []
    for n, instruction in enumerate(instructions):
        assert isinstance(instruction.shape, Shape)  # see passes/estimate_costs.py
        values.append(artifact.Value(instruction.shape, kinds[n] if kinds else "device"))
    return tuple(values)


def write(executable: Executable, context: Context) -> bytes:
    """The bytes of the artifact."""
    return artifact.serialize(executable)


def files_of_artifact(data: bytes, context: Context) -> Iterator[tuple[str, bytes]]:
    yield ARTIFACT, data
