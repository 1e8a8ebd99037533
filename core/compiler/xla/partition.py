"""Partitioning: one program for all devices, with shardings, becomes the program that each device runs.

A framework that shards arrays over N devices sends the unpartitioned program with ``num_partitions`` = N. XLA's
partitioners (Shardy, or GSPMD for the older sharding annotations) make of it a module of per-device shapes with
collectives in it. They come with jaxlib, in its CPU compiler; this module runs that compiler's passes up to the
partitioner and no further: the pipeline is told to run the passes of :data:`PASSES` only, and a transformation
registered behind them takes the module and ends the compilation. Nothing of XLA's other passes, nor its code, gets into
our programs.
"""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from jaxlib import _jax
from jaxlib.version import __version__ as jaxlib_version

from ..formats import wire_format
from ..ir.errors import STATUS_CODES, CompileError, unimplemented
from . import partitioners

# XLA's passes that run: the one that takes out where arrays lie, which the partitioner refuses (of parameters and
# results the signature says it), those of its SPMD pipeline, and what takes the module.
PASSES: Final = (
    "strip-memory-placement-annotations",
    "flatten-call-graph",
    "call-inliner",
    "zero_sized_hlo_elimination",
    "conditional-canonicalizer",
    "shardy-xla",
    "sharding-propagation",
    "spmd-partitioning",
    "dce",
    "tuple-simplifier",
    "apply-xla-transforms",
)
# jaxlib 0.12 numbers the passes of this name through the life of a process, a few a compilation. Nothing tells how many
# programs of others the process has compiled with XLA, so more numbers are tried until one is that of our pass.
_NUMBERED: Final = "apply-xla-transforms-{}"
_NUMBERS: Final = 16  # more than one compilation takes
_MORE: Final = 16  # times as many in the next try
_MOST: Final = 1 << 20
_PRE_SCHEDULER: Final = 0  # jax.extend.xla.PipelineStage
_NAME: Final = "tripont-take-partitioned-module"
# Fields of HloModuleProto: spmd_output_sharding, spmd_parameters_shardings.
_SHARDINGS: Final = (12, 14)

# A callback on one device of several keeps its sharding only under a name that XLA knows. As long as ours, so that it
# can be put into the bytes of a program in any format.
_CALLBACK: Final = b"tripont.python_callback"
_XLA_CALLBACK: Final = b"xla_python_cpu_callback"
assert len(_CALLBACK) == len(_XLA_CALLBACK)
# The attribute of a custom call that says how many of its leading dimensions are those of a batch.
_BATCHED: Final = b"num_batch_dims"
# Custom calls of which XLA's partitioner calls Python functions of the process that the program comes from: its
# target, and what a user knows it as.
_CALLING_BACK: Final = {
    partitioners.INSPECT: "jax.debug.inspect_array_sharding of an array that is being traced for several devices",
    "CustomSPMDPartitioning": "jax.experimental.custom_partitioning on several devices",
}

_STATUS: Final = re.compile(r"^([A-Z_]+): ")
_one_at_a_time = threading.Lock()
_tried = 0  # numbers, up to now


class _Taken(Exception):  # noqa: N818 - not an error: it ends XLA's compilation
    """The partitioned module is in our hands."""


@dataclass(slots=True)
class BuildOptions:
    """What a CompileOptionsProto says of devices. ``proto``: all of it."""

    num_replicas: int = 1
    num_partitions: int = 1
    use_spmd_partitioning: bool = True
    proto: bytes = b""


@dataclass(slots=True)
class Partitioned:
    """The program of one device.

    ``module``: a serialized HloModuleProto. ``shardings``: those of its fields that say how the whole program's
    parameters and results are sharded, as bytes. ``by_functions``: whether functions of the process that the program
    comes from took part.
    """

    module: bytes
    shardings: bytes = b""
    by_functions: bool = False


def read_options(proto: bytes) -> BuildOptions:
    """The numbers of replicas and partitions in a serialized CompileOptionsProto; no bytes: the defaults."""
    if not proto:
        return BuildOptions()
    build = _jax.CompileOptions.ParseFromString(proto).executable_build_options
    return BuildOptions(
        max(1, build.num_replicas),
        max(1, build.num_partitions),
        build.use_spmd_partitioning,
        proto,
    )


def partition(program: bytes, format: str, options: BuildOptions) -> Partitioned:
    """The program of each of ``options.num_partitions`` devices, from one for all of them.

    ``format``: as for :func:`..importer.program.read_program`. Raises CompileError with what XLA's partitioner says or
    a function that takes part in it raises, and UNIMPLEMENTED if jaxlib is too old to be asked, or for a program whose
    partitioning needs Python functions of its process while it is compiled without that.
    """
    try:
        from jaxlib import _xla
    except ImportError:
        raise unimplemented(
            f"a program for {options.num_partitions} partitions needs jaxlib 0.10.2 or newer"
        ) from None

    text = partitioners.with_plain_names(_stablehlo(program, format))
    process = partitioners.process()
    for target, what in _CALLING_BACK.items():
        if target.encode() in text and (process is None or target not in process.names):
            raise unimplemented(f"{what}: its Python function is not where the program is compiled")
    text = text.replace(_CALLBACK, _XLA_CALLBACK)
    if _BATCHED in text:
        _partition_batches(text)
    if process is not None and process.names:
        text = partitioners.take_part(process, text)
    count = options.num_replicas * options.num_partitions
    taken: list[bytes] = []

    def take(module: bytes) -> bytes:
        taken.append(module)
        raise _Taken

    failed: Exception | None = None
    with xla_compiler(count) as client:
        _xla.register_xla_transform(_NAME, _PRE_SCHEDULER, take)
        try:
            for numbers in _numbers():
                client.compile_and_load(
                    text,
                    _jax.DeviceList(tuple(client.devices())),
                    _compile_options(options, numbers),
                )
        except Exception as error:
            failed = error
        finally:
            _xla.clear_xla_transform(_NAME, _PRE_SCHEDULER)
    if process is not None and process.error is not None:
        raise CompileError(process.error.code, f"{_what(options)}: {process.error}")
    if not taken and failed is not None:
        raise _as_compile_error(failed, options) from failed
    if not taken:
        raise unimplemented(
            f"{_what(options)}: jaxlib {jaxlib_version} does not hand the program over"
        )
    module = taken[0].replace(_XLA_CALLBACK, _CALLBACK)
    shardings = b"".join(f.whole for f in wire_format.fields(module) if f.number in _SHARDINGS)
    return Partitioned(module, shardings, process is not None and process.asked)


def _stablehlo(program: bytes, format: str) -> bytes:
    """The program in a form that XLA's client takes."""
    if format == "hlo":
        return bytes(_jax.mlir.hlo_to_stablehlo(program))
    return program


def _partition_batches(text: bytes) -> None:
    """Have the partitioner split custom calls along their batches: each device does the matrices that it has."""
    from ..importer import bindings
    from ..importer.program import read_mlir

    targets: set[str] = set()

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.custom_call":
            given = operation.attributes
            key = "mhlo.frontend_attributes"
            if key in given and _BATCHED.decode() in given[key]:
                targets.add(bindings.ir.StringAttr(given["call_target_name"]).value)
        return bindings.ir.WalkResult.ADVANCE

    read_mlir(text, "mlir", bindings.context()).operation.walk(visit)
    for target in targets:
        _jax.register_custom_call_as_batch_partitionable(target)


@contextmanager
def xla_compiler(count: int) -> Iterator[Any]:
    """jaxlib's client of XLA's CPU with ``count`` devices.

    One thread at a time: what is registered for a compilation is registered for all.
    """
    global _tried
    with _one_at_a_time:
        _tried += _NUMBERS
        yield _client(count)


def _numbers() -> Iterator[int]:
    """How many numbers of passes to try, each time more. Later compilations begin with what was reached."""
    global _tried
    yield _tried
    while _tried < _MOST:
        _tried *= _MORE
        yield _tried


@functools.cache
def _client(count: int) -> Any:
    """A client of XLA's CPU with ``count`` devices. Nothing ever runs on it."""
    from jaxlib import utils

    utils.absl_set_min_log_level(2)  # it greets, and it reports what we do on purpose
    return _jax.get_tfrt_cpu_client(asynchronous=False, num_devices=count)


def _compile_options(options: BuildOptions, numbers: int) -> Any:
    compile_options = (
        _jax.CompileOptions.ParseFromString(options.proto)
        if options.proto
        else _jax.CompileOptions()
    )
    ids = np.arange(options.num_replicas * options.num_partitions)
    assignment = _jax.DeviceAssignment.create(ids.reshape(options.num_replicas, -1))
    compile_options.device_assignment = assignment
    compile_options.num_replicas = options.num_replicas
    compile_options.num_partitions = options.num_partitions
    build = compile_options.executable_build_options
    build.num_replicas = options.num_replicas
    build.num_partitions = options.num_partitions
    build.device_assignment = assignment
    build.use_spmd_partitioning = True
    if not options.proto:  # as JAX has it
        build.use_shardy_partitioner = True
        build.allow_spmd_sharding_propagation_to_output = [True]
    debug = build.debug_options
    debug.xla_backend_optimization_level = 0
    numbered = map(_NUMBERED.format, range(numbers))
    debug.xla_enable_hlo_passes_only = ",".join([*PASSES, *numbered])
    debug.xla_dump_to = ""
    # What is for us is not for XLA.
    compile_options.env_option_overrides = []
    return compile_options


def _as_compile_error(error: Exception, options: BuildOptions) -> CompileError:
    text = str(error)
    found = _STATUS.match(text)
    code = found[1] if found and found[1] in STATUS_CODES else "INTERNAL"
    return CompileError(code, f"{_what(options)}: {text[:2000]}")


def _what(options: BuildOptions) -> str:
    return f"partitioning for {options.num_partitions} devices"
