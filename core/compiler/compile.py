"""The driver: program bytes in, artifact bytes out.

:func:`compile_program` is what the compile worker and the command line call. It has no state. What it
makes depends on its arguments alone: the target and what it has stand in ``options`` (a CPU "host" is
the one that runs this). The environment variables that :mod:`.dump` and :mod:`.verifier` name add files
and checks.
"""

from __future__ import annotations

import gc
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress

from tripont.version import __version__

from . import (
    artifact,
    buffers,
    cost,
    description,
    dump,
    hlo_proto,
    lowering,
    option_overrides,
    partition,
    pipeline,
    targets,
    verifier,
)
from .artifact import Executable, Slice, Thunk
from .codegen import callbacks, kernels, llvm_ir, sequence
from .donation import donated_parameters
from .errors import CompileError, internal, invalid_argument
from .hlo import Instruction, Module, Shape
from .lowering import KernelInfo
from .passes.dynamic_sizes import resolve_dynamic_sizes
from .passes.entry_layouts import entry_layouts
from .passes.tokens import tokens_as_arrays
from .recursion import deep_recursion
from .targets.target import Image, Target

# What a compilation may be told: name -> what the value means. Besides, it heeds XLA's option
# xla_allow_excess_precision, whose values XLA itself checks (option_overrides).
OPTIONS: Mapping[str, str] = {
    **targets.OPTIONS,
    "dump_to": "folder for dumps of all stages",
    "dump_hlo_pass_re": "regular expression: passes around which to dump HLO",
    "dump_hlo_module_re": "regular expression: names of programs to dump (the default: all)",
}


def compile_program(
    program: bytes, format: str, options_proto: bytes, options: Mapping[str, str]
) -> bytes:
    """The executable artifact of a program.

    ``format`` is "mlir" (StableHLO text, bytecode or portable artifact), "hlo" (HloModuleProto), or
    "artifact" (what this function gave before: it is dumped if ``options`` say so, and the result is
    empty); ``options_proto`` a serialized CompileOptionsProto, possibly empty; ``options`` has keys of
    :data:`OPTIONS`. Raises CompileError.
    """
    if format == "artifact":
        _dump_artifact(dump.from_options(options), program)
        return b""
    option_overrides.check(options_proto, OPTIONS)
    target = targets.from_options(options)
    dumping = dump.from_options(options)
    with _no_garbage_collection():
        module, decisive = _read(program, format, options_proto)
        if dumping.enabled:
            dumping.begin(module.name)
            _dump_program(dumping, program, format)
        identity = fingerprint(decisive, format, options_proto, target)
        executable = compile_module(module, options, dumping, identity)
        return artifact.serialize(executable)


def _read(program: bytes, format: str, options_proto: bytes) -> tuple[Module, bytes]:
    """The module that one device runs: what the program says, or the partitioner makes of it; and the bytes that
    decide what it is: the program's, unless functions of its process took part.
    """
    from .importer.program import read_program, read_signature

    build = partition.read_options(options_proto)
    whole = None
    decisive = program
    if not options_proto or (build.num_partitions > 1 and build.use_spmd_partitioning):
        whole = read_signature(program, format)
        if not options_proto:
            build.num_replicas, build.num_partitions = whole.num_replicas, whole.num_partitions
            build.use_spmd_partitioning = whole.is_sharded
    if whole is None or build.num_partitions == 1 or not build.use_spmd_partitioning:
        module = read_program(program, format)
    else:
        partitioned = partition.partition(program, format, build)
        module = read_program(partitioned.module, "hlo")
        if partitioned.by_functions:
            decisive = partitioned.module
        module.shardings = partitioned.shardings
        module.parameter_memory_kinds = whole.parameter_memory_kinds
        module.result_memory_kinds = whole.result_memory_kinds
        module.parameter_layouts = whole.parameter_layouts
        module.result_layouts = whole.result_layouts
    module.num_replicas = build.num_replicas
    module.num_partitions = build.num_partitions
    return module, decisive


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A compilation makes many objects and few cycles: looking for those in the middle takes a
    fifth of its time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@deep_recursion()
def compile_module(
    module: Module,
    options: Mapping[str, str] | None = None,
    dumping: dump.Dump | None = None,
    identity: str = "",
) -> Executable:
    """Compile an HLO module. ``options``: see :data:`OPTIONS`; ``identity``: the executable's
    fingerprint. Raises CompileError.
    """
    options = options or {}
    target = targets.from_options(options)
    if dumping is None:
        dumping = dump.from_options(options)
        dumping.begin(module.name)
    verifier.verify_program(module)
    module = entry_layouts(resolve_dynamic_sizes(tokens_as_arrays(module)))
    parameters = _values(
        [p.shape for p in module.entry.parameters], module.parameter_memory_kinds, "parameter"
    )
    results = _values([r.shape for r in module.entry.results], module.result_memory_kinds, "result")
    costs = cost.of_module(module)
    exact = options.get("xla_allow_excess_precision", "").lower() in ("false", "0")
    passes = pipeline.EXACT_PASSES if exact else pipeline.PASSES
    module = pipeline.run(module, target, dumping, passes)
    assignment = buffers.assign(module)
    code, lowered, program, image = _generate(module, assignment, target, dumping)
    costs.optimal_nanoseconds = cost.of_thunks(lowered.thunks)
    executable = Executable(
        name=module.name,
        target=target.name,
        triple=target.triple,
        cpu=target.cpu,
        cpu_features=target.features,
        compiler_version=__version__,
        fingerprint=identity or target.fingerprint,
        parameters=parameters,
        results=results,
        allocations=tuple(assignment.allocations),
        thunks=(),
        code=image.code,
        constants=assignment.constants,
        imports=tuple(image.imports),
        donatable_parameters=donated_parameters(module, parameters, results),
        num_replicas=module.num_replicas,
        num_partitions=module.num_partitions,
        visible_results=module.visible_results,
        dynamic_results=module.dynamic_results,
        size_checks=module.size_checks,
        costs=costs,
        debug=tuple(lowered.debug),
        program=program,
    )
    described = None
    if dumping.enabled:  # before linking, which puts offsets in the place of kernels' names
        described = description.describe(executable, module, assignment, lowered, str(code))
    executable.thunks = lowering.link(lowered, image.symbols)
    if described is not None:
        dumping.write(dump.OPTIMISED_PROTO, program)
        dumping.write(dump.ARTIFACT, artifact.serialize(executable))
        dumping.describe(described)
    return executable


def _generate(
    module: Module, assignment: buffers.Assignment, target: Target, dumping: dump.Dump
) -> tuple[llvm_ir.Module, lowering.Lowered, bytes, Image]:
    """The kernels of a scheduled module, the thunks that call them, the HLO that they are of, and their code."""
    code = target.module()

    def emit(instruction: Instruction, name: str) -> KernelInfo:
        emitted = kernels.emit_kernel(code, target, instruction, name)
        target.check(code, instruction)
        compilation.written(code)
        return KernelInfo(emitted.function, emitted.work_count, emitted.grain, emitted.cost_ns)

    def emit_callback(instruction: Instruction, name: str) -> callbacks.Callback:
        return callbacks.emit(*target.callbacks(code), instruction, name)

    read_only = {
        number
        for number, allocation in enumerate(assignment.allocations)
        if allocation.kind in (artifact.ALLOCATION_PARAMETER, artifact.ALLOCATION_CONSTANT)
    }

    def emit_sequence(
        thunks: Sequence[Thunk], symbols: Sequence[str], name: str
    ) -> tuple[KernelInfo, tuple[Slice, ...]]:
        emitted, slices = sequence.emit_sequence(code, target, thunks, symbols, name, read_only)
        info = KernelInfo(emitted.function, emitted.work_count, emitted.grain, emitted.cost_ns)
        return info, slices

    with closing(target.start(dump=dumping.enabled)) as compilation:
        lowered = lowering.Lowering(
            module, assignment, emit, emit_callback, describe, emit_sequence, target.merged_ns
        ).run()
        code.launched = launched = lowering.launched(lowered)
        if dumping.enabled:
            dumping.write("ir-no-opt.ll", str(code))
            dumping.write("buffer_assignment.txt", buffers.print_assignment(assignment))
        program = hlo_proto.write_module(module)  # while other processes compile
        image = compilation.finish(code) if lowered.symbols else Image(b"", {})
    missing = [s for s in launched if s not in image.symbols]
    if missing:
        raise internal(f"code image lacks {missing[0]}")
    if dumping.enabled:
        if lowered.symbols:
            dumping.write("ir-with-opt.ll", image.optimised_ir)
            dumping.write(target.assembly_suffix, image.assembly)
            for suffix, content in image.files.items():
                dumping.write(suffix, content)
        dumping.write("thunk_sequence.txt", lowering.print_thunks(lowered))
    return code, lowered, program, image


def fingerprint(program: bytes, format: str, options_proto: bytes, target: Target) -> str:
    """What identifies a compilation: the program, its options, the compiler's version and the
    target.
    """
    digest = hashlib.sha256()
    for part in (__version__, str(artifact.FORMAT_VERSION), target.fingerprint, format):
        digest.update(part.encode() + b"\0")
    digest.update(len(options_proto).to_bytes(8, "little") + options_proto)
    digest.update(program)
    return digest.hexdigest()


def describe(instruction: Instruction) -> str:
    """One short line about an instruction, for profiles and errors."""
    operands = ", ".join([str(o.shape) for o in instruction.operands[:8]])
    more = ", ..." if len(instruction.operands) > 8 else ""
    return f"{instruction.shape} {instruction.opcode}({operands}{more})"


def _values(shapes: list[object], kinds: tuple[str, ...], what: str) -> tuple[artifact.Value, ...]:
    values = []
    for n, shape in enumerate(shapes):
        if not isinstance(shape, Shape):
            raise CompileError(
                "UNIMPLEMENTED", f"{what} {n} of the program is {shape}: only arrays are supported"
            )
        values.append(artifact.Value(shape, kinds[n] if kinds else "device"))
    return tuple(values)


def _dump_program(dumping: dump.Dump, program: bytes, format: str) -> None:
    """The program as it was received, and as StableHLO text."""
    from .importer import bindings, bytecode
    from .importer.program import read_mlir

    if format == "hlo":
        dumping.write("received.hlo.pb", program)
    else:
        dumping.write(
            "received.mlirbc" if bytecode.is_bytecode(program) else "received.mlir", program
        )
    with suppress(CompileError):  # what passes cannot read has its own error, and no text
        dumping.write("stablehlo.mlir", str(read_mlir(program, format, bindings.context())))


def _dump_artifact(dumping: dump.Dump, data: bytes) -> None:
    """What an artifact tells by itself: the optimised HLO."""
    from .importer import bindings

    try:
        executable = artifact.deserialize(data)
    except artifact.ArtifactError as error:
        raise invalid_argument(f"the artifact: {error}") from error
    dumping.begin(executable.name, data)
    if dumping.enabled and executable.program:
        dumping.write(dump.OPTIMISED_PROTO, executable.program)
        dumping.write("after_optimizations.txt", bindings.hlo_text(executable.program))


__all__ = ["OPTIONS", "compile_module", "compile_program", "fingerprint"]
