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
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from jaxlib import _jax

from .errors import STATUS_CODES, CompileError, unimplemented

# XLA's passes that run: those of its SPMD pipeline, and what takes the module.
PASSES: Final = (
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
_PRE_SCHEDULER: Final = 0  # jax.extend.xla.PipelineStage
_NAME: Final = "tripont-take-partitioned-module"
# Fields of HloModuleProto.
_SPMD_OUTPUT_SHARDING: Final = 12
_SPMD_PARAMETERS_SHARDINGS: Final = 14
_BUFFER_DONOR: Final = 18
_SHARDING_FIELDS: Final = (_SPMD_OUTPUT_SHARDING, _SPMD_PARAMETERS_SHARDINGS)

_STATUS: Final = re.compile(r"^([A-Z_]+): ")
_one_at_a_time = threading.Lock()


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
    parameters and results are sharded, as bytes. ``donors``: parameters that may be given up.
    """

    module: bytes
    shardings: bytes = b""
    donors: tuple[int, ...] = field(default_factory=tuple)


def read_options(proto: bytes) -> BuildOptions:
    """The numbers of replicas and partitions in a serialized CompileOptionsProto; no bytes: the defaults."""
    if not proto:
        return BuildOptions()
    try:
        build = _jax.CompileOptions.ParseFromString(proto).executable_build_options
    except Exception as error:
        raise CompileError(
            "INVALID_ARGUMENT", f"the compile options are damaged: {error}"
        ) from error
    return BuildOptions(
        max(1, build.num_replicas),
        max(1, build.num_partitions),
        build.use_spmd_partitioning,
        proto,
    )


def partition(program: bytes, format: str, options: BuildOptions) -> Partitioned:
    """The program of each of ``options.num_partitions`` devices, from one for all of them.

    ``format``: as for :func:`.importer.program.read_program`. Raises CompileError with what XLA's partitioner says, and
    UNIMPLEMENTED if jaxlib is too old to be asked.
    """
    try:
        from jaxlib import _xla
    except ImportError:
        raise unimplemented(
            f"a program for {options.num_partitions} partitions needs jaxlib 0.10.2 or newer"
        ) from None

    text = _stablehlo(program, format)
    count = options.num_replicas * options.num_partitions
    taken: list[bytes] = []

    def take(module: bytes) -> bytes:
        taken.append(module)
        raise _Taken

    with _one_at_a_time:
        client = _client(count)
        _xla.register_xla_transform(_NAME, _PRE_SCHEDULER, take)
        try:
            client.compile_and_load(
                text, _jax.DeviceList(tuple(client.devices())), _compile_options(options)
            )
        except Exception as error:
            if not taken:
                raise _as_compile_error(error, options) from error
        finally:
            _xla.clear_xla_transform(_NAME, _PRE_SCHEDULER)
    (module,) = taken
    donors: list[int] = []
    shardings = bytearray()
    for number, whole, payload in _fields(module):
        if number in _SHARDING_FIELDS:
            shardings += whole
        elif number == _BUFFER_DONOR:
            donors += [_parameter_number(entry) for n, _, entry in _fields(payload) if n == 1]
    return Partitioned(module, bytes(shardings), tuple(donors))


def _stablehlo(program: bytes, format: str) -> bytes:
    """The program in a form that XLA's client takes."""
    if format == "hlo":
        return bytes(_jax.mlir.hlo_to_stablehlo(program))
    return program


@functools.cache
def _client(count: int) -> Any:
    """A client of XLA's CPU with ``count`` devices. Nothing ever runs on it."""
    from jaxlib import utils

    utils.absl_set_min_log_level(2)  # it greets, and it reports what we do on purpose
    return _jax.get_tfrt_cpu_client(asynchronous=False, num_devices=count)


def _compile_options(options: BuildOptions) -> Any:
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
    debug.xla_enable_hlo_passes_only = ",".join(PASSES)
    debug.xla_dump_to = ""
    # What is for us is not for XLA.
    compile_options.env_option_overrides = []
    return compile_options


def _as_compile_error(error: Exception, options: BuildOptions) -> CompileError:
    text = str(error)
    found = _STATUS.match(text)
    code = found[1] if found and found[1] in STATUS_CODES else "INTERNAL"
    return CompileError(code, f"partitioning for {options.num_partitions} devices: {text[:2000]}")


# --------------------------------------------------------------------------------------------------- wire format


def _fields(message: bytes) -> list[tuple[int, bytes, bytes]]:
    """The fields of a protocol buffer message: number, the whole field, and its content (of a length-delimited one)."""
    fields = []
    position = 0
    while position < len(message):
        start = position
        key, position = _varint(message, position)
        content = b""
        kind = key & 7
        if kind == 0:
            _, position = _varint(message, position)
        elif kind == 1:
            position += 8
        elif kind == 2:
            size, position = _varint(message, position)
            content = message[position : position + size]
            position += size
        elif kind == 5:
            position += 4
        else:
            raise CompileError("INTERNAL", "XLA gave a module that is not a message")
        fields.append((key >> 3, message[start:position], content))
    return fields


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7


def _parameter_number(entry: bytes) -> int:
    """Of a buffer donor; parameters are no tuples here."""
    for number, whole, _ in _fields(entry):
        if number == 1:
            return _varint(whole, 1)[0]
    return 0
