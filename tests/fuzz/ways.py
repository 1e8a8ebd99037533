"""The ways in which a program is compiled and run."""

from __future__ import annotations

import contextlib
import functools
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Final
from unittest import mock

import numpy as np
from tripont.core import _tripont
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen import effort
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.hlo import Module
from tripont.core.compiler.targets.host import costs, cpu
from tripont.core.compiler.targets.host import target as host_target

from tests.conformance import device
from tests.fuzz import other_target

Arrays = list[np.ndarray]

# Passes that a program may go without.
OPTIONAL_PASSES: Final = (
    "share_computations",
    "order_extrema",
    "gather_by_sorting",
    "simplify",
    "eliminate_common_subexpressions",
    "simplify_loops",
    "hoist_invariants",
    "split_scans",
    "split_reductions",
    "gather_transposes",
    "annotate_trip_counts",
)


def load(program: str | bytes | Module, options: Mapping[str, str]) -> Any:
    """A program (StableHLO text, the bytes of an HloModuleProto, or what was read of one) ready to run. Raises
    CompileError.
    """
    device.devices()
    if isinstance(program, bytes):
        module = read_program(program, "hlo")
    elif isinstance(program, str):
        module = read_program(program.encode(), "mlir")
    else:
        module = program
        module.assign_names()  # compiling gives some of its instructions other ones
    return _tripont.Executable.load(artifact.serialize(compile_module(module, dict(options))))


# CPUs whose costs choose other kernels, libraries and sizes of blocks than this one's do.
MODELS: Final = ("znver3", "znver4", "znver5")


class _Elsewhere:
    """A program that the process of another target compiles when it is run."""

    def __init__(self, text: str) -> None:
        self.text = text


def run(executable: Any, arguments: Sequence[np.ndarray], donate: bool = False) -> Arrays:
    """The results. ``donate``: give away what the program may overwrite; else see that nothing was overwritten."""
    if isinstance(executable, _Elsewhere):
        return other_target.server("sycl", os.getpid()).run(executable.text, arguments)
    on = device.devices()[0]
    given = [_tripont.Buffer.from_array(np.asarray(a), on) for a in arguments]
    results = executable.execute(on, given, [] if donate else list(range(len(given))))
    arrays = [r.numpy() for r in results]
    if not donate:
        for n, (buffer, a) in enumerate(zip(given, arguments, strict=True)):
            if buffer.numpy().tobytes() != np.ascontiguousarray(a).tobytes():
                raise AssertionError(f"argument {n} was overwritten")
    return arrays


@functools.cache
def levels() -> list[str]:
    """The CPUs of lower levels whose code this machine can run."""
    names = ("x86-64-v2", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v4")
    ours = set(_tripont.cpu_features())
    return [n for n in names if set(cpu.describe(n)[1]) <= ours]


@contextlib.contextmanager
def passes(change: Callable[[tuple[Any, ...]], tuple[Any, ...]]) -> Iterator[None]:
    """Inside, programs are compiled by another list of passes."""
    usual = pipeline.PASSES
    pipeline.PASSES = change(usual)
    try:
        yield
    finally:
        pipeline.PASSES = usual


@contextlib.contextmanager
def costs_of(model: str) -> Iterator[None]:
    """Inside, programs are compiled by the costs of another CPU, ``model``, with the instructions of their own."""
    usual = costs.costs_of
    with mock.patch.object(host_target, "costs_of", lambda _, features: usual(model, features)):
        host_target.for_cpu.cache_clear()
        try:
            yield
        finally:
            host_target.for_cpu.cache_clear()


@contextlib.contextmanager
def written_short() -> Iterator[None]:
    """Inside, all code is written and compiled like that behind the first 4 MB of a module's text."""
    usual = effort.CAREFUL
    effort.CAREFUL = -1  # type: ignore[misc]
    try:
        yield
    finally:
        effort.CAREFUL = usual


# A conversion of complex constants to booleans ends the process in XLA's conversion to HLO (docs/verification.md).
_ENDS_CONVERTER: Final = re.compile(r"convert .*complex<f(32|64)>>\) -> tensor<([0-9]+x)*i1>")


def other_way(
    chances: Random, text: str, module: Module | None = None
) -> tuple[str, Callable[[], Any]]:
    """The name of another way to compile StableHLO text, and a function that does.

    ``module``: what was read of the text, if it was: compiling leaves it as it is.
    """
    options = device.OPTIONS
    program = text if module is None else module
    kind = chances.choice(["level", "level", "HLO", "rounded", "less", "more", "short", "SYCL"])
    if kind == "level" and levels() and device.TARGET == "host":
        level = chances.choice(levels())
        model = chances.choice(["", "", *MODELS])
        if not model:
            return f"for {level}", lambda: load(program, {**options, "cpu": level})
        level = chances.choice([level, options["cpu"]])

        def make_by_other_costs() -> Any:
            with costs_of(model):
                return load(program, {**options, "cpu": level})

        return f"for {level} with the costs of {model}", make_by_other_costs
    if kind == "HLO" and not _ENDS_CONVERTER.search(text):
        return "as HLO", lambda: load(device.as_hlo(text), options)
    if kind == "SYCL" and device.TARGET == "host" and other_target.has_sycl():
        return "on SYCL", lambda: _Elsewhere(text)
    if kind == "short":

        def make_short() -> Any:
            with written_short():
                return load(program, options)

        return "written short", make_short
    if kind in ("less", "more"):
        name = chances.choice(OPTIONAL_PASSES)

        def change(steps: tuple[Any, ...]) -> tuple[Any, ...]:
            if kind == "less":
                return tuple(s for s in steps if s.__name__ != name)
            return tuple(x for s in steps for x in ([s, s] if s.__name__ == name else [s]))

        def make() -> Any:
            with passes(change):
                return load(program, options)

        return f"with {name} {'twice' if kind == 'more' else 'left out'}", make
    return "rounded after each operation", lambda: load(
        program, {**options, "xla_allow_excess_precision": "false"}
    )


def run_xla(text: str, arguments: Sequence[np.ndarray]) -> Arrays:
    """XLA:CPU's results, of code that LLVM does not optimise: it takes half as long. Raises an exception of jaxlib's
    for what it does not compile.
    """
    import jax
    from jaxlib import _jax

    jax.config.update("jax_platforms", "cpu")  # no other client is made
    device = jax.devices("cpu")[0]
    options = _jax.CompileOptions()
    options.executable_build_options.debug_options.xla_backend_optimization_level = 0
    executable = device.client.compile_and_load(
        text, _jax.DeviceList((device,)), compile_options=options
    )
    given = [jax.device_put(np.asarray(a), device) for a in arguments]
    results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(r[0]) for r in results]
