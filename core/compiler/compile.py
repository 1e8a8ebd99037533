"""The driver: program bytes in, artifact bytes out.

:func:`compile_program` is what the compile worker and the command line call. It has no state. What it
makes depends on its arguments alone: the target and what it has stand in ``options`` (a CPU "host" is
the one that runs this). The environment variables that :mod:`.observe.dump` and :mod:`.ir.verifier` name add files
and checks. The stages are those of :mod:`.pipeline`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from . import pipeline, targets
from .formats import artifact
from .formats.artifact import Executable
from .ir.errors import invalid_argument
from .ir.hlo import Module
from .ir.recursion import deep_recursion
from .observe import dump
from .stages import Context, Program, fingerprint
from .targets import threads
from .xla import option_overrides

# What a compilation may be told: name -> what the value means. Besides, it heeds XLA's options
# xla_allow_excess_precision and xla_cpu_multi_thread_eigen, whose values XLA itself checks (option_overrides).
OPTIONS: Mapping[str, str] = {
    **targets.OPTIONS,
    "num_threads": "threads of the host that one execution may use (0, the default: as many as the process may)",
    "overlap_collectives": "whether collectives may run beside other work: true (the default) or false",
    "dump_to": "folder for dumps of all stages",
    "dump_hlo_pass_re": "regular expression: passes around which to dump HLO",
    "dump_hlo_module_re": "regular expression: names of programs to dump (the default: all)",
}

_NO: Final = ("false", "0")


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
    with _no_garbage_collection():
        received = Program(program, format, options_proto)
        data: bytes = _run(received, _context(options), pipeline.STAGES)
        return data


def compile_module(module: Module, options: Mapping[str, str] | None = None) -> Executable:
    """Compile an HLO module. ``options``: see :data:`OPTIONS`. Raises CompileError."""
    context = _context(options or {})
    context.dump.begin(module.name)
    module = replace(module, exact=context.exact, overlaps=context.overlaps)
    executable: Executable = _run(module, context, pipeline.COMPILING)
    return executable


def _context(options: Mapping[str, str]) -> Context:
    exact = options.get("xla_allow_excess_precision", "").lower() in _NO
    target = targets.from_options(options)
    overlaps = options.get("overlap_collectives", "").lower() not in _NO
    return Context(target, dump.from_options(options), exact, _num_threads(options), overlaps)


def _num_threads(options: Mapping[str, str]) -> int:
    text = options.get("num_threads")
    if text is None:  # XLA's way to ask for one thread, for its CPU
        return int(options.get("xla_cpu_multi_thread_eigen", "").lower() in _NO)
    return threads.read_count("num_threads", text, 0, "all threads")


@deep_recursion()
def _run(value: Any, context: Context, stages: Sequence[pipeline.Stage]) -> Any:
    with context.resources:
        return pipeline.run_stages(value, context, stages)


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
