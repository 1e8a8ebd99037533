"""``tripont doctor --hosts``: whether programs can span processes here, and how fast (docs/hosts.md).

MPI is opened in a process of its own, as the runtime opens it. Then two processes join a job on this machine, add
arrays, and say how long it takes.
"""

from __future__ import annotations

import json
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final

from .doctor import find_tbb
from .finding import ERROR, OK, WARNING, Finding, in_process

_LIBRARY: Final = "libmpi_abi.so.1"
_INSTALL: Final = "pip install 'tripont[hosts]', or set TRIPONT_MPI_PATH to a libmpi_abi.so.1"
# Arrays of a training step come in this size and larger.
_LARGE_BYTES: Final = 16 << 20

_MPI_VERSION = """
import ctypes
library = ctypes.CDLL({path!r})
major, minor = ctypes.c_int(), ctypes.c_int()
library.MPI_Abi_get_version(ctypes.byref(major), ctypes.byref(minor))
text, length = ctypes.create_string_buffer(8192), ctypes.c_int()
library.MPI_Get_library_version(text, ctypes.byref(length))
print(f"{{major.value}}.{{minor.value}}", " ".join(text.value.decode().splitlines()[0].split()), sep="|")
"""


def mpi_library() -> str:
    """What the runtime opens: the file that TRIPONT_MPI_PATH says, the environment's, or what the linker finds."""
    if chosen := os.environ.get("TRIPONT_MPI_PATH"):
        return str(Path(chosen, _LIBRARY)) if Path(chosen).is_dir() else chosen
    tbb = find_tbb()
    packaged = tbb.parent / _LIBRARY if tbb else None
    return str(packaged) if packaged and packaged.exists() else _LIBRARY


def check_mpi() -> Finding:
    """The library, its version and that of its ABI, of which 1.0 is wanted."""
    path = mpi_library()
    good, answer = in_process(_MPI_VERSION.format(path=path))
    if not good:
        return Finding("MPI", ERROR, f"{path} cannot be used: {answer}", _INSTALL)
    abi, version = answer.split("|")
    if not abi.startswith("1."):
        return Finding("MPI", ERROR, f"{path} has ABI {abi}, not 1.0", _INSTALL)
    return Finding("MPI", OK, f"{version}, ABI {abi}, {path}")


def check_shared_memory(folder: str = "/dev/shm") -> Finding:
    """Where the processes of one machine exchange small messages."""
    try:
        status = os.statvfs(folder)
    except OSError as error:
        return Finding("shared memory", ERROR, f"{folder}: {error.strerror}", f"mount {folder}")
    free = status.f_bavail * status.f_frsize
    detail = f"{folder}, {free / 2**20:,.0f} MB free"
    if not os.access(folder, os.W_OK):
        return Finding(
            "shared memory", ERROR, f"{folder} cannot be written", f"chmod 1777 {folder}"
        )
    if free < 32 << 20:  # Docker gives 64 MB; MPICH takes a few MB for each process
        fix = f"make {folder} larger (docker run --shm-size=1g)"
        return Finding("shared memory", WARNING, f"{detail}: too little for many processes", fix)
    return Finding("shared memory", OK, detail)


def check_network() -> Finding:
    """What MPI may listen on between machines; on one machine nothing does."""
    chosen = {
        name: os.environ[name]
        for name in ("TRIPONT_HOSTS_INTERFACE", "UCX_NET_DEVICES", "FI_TCP_IFACE")
        if os.environ.get(name)
    }
    there = sorted(name for _, name in socket.if_nameindex())
    if not chosen:
        return Finding(
            "network",
            OK,
            f"none chosen: jobs stay on one machine. TRIPONT_HOSTS_INTERFACE can be {', '.join(there)}",
        )
    detail = " ".join(f"{name}={value}" for name, value in chosen.items())
    interface = chosen.get("TRIPONT_HOSTS_INTERFACE")
    if interface and interface not in there:
        fix = f"choose one of {', '.join(there)}"
        return Finding("network", ERROR, f"{detail}: there is no such interface", fix)
    return Finding("network", OK, f"{detail} (messages are neither encrypted nor authenticated)")


def check_processes() -> Finding:
    """An all-reduce between two processes on this machine: its result, latency and bandwidth."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    variables = {"JAX_PLATFORMS": "xpu", "TRIPONT_NUM_DEVICES": "1"}
    variables["TRIPONT_COLLECTIVE_TIMEOUT"] = "60"
    code = "from tripont.cli.hosts import measure; measure({}, {})"
    with ThreadPoolExecutor(2) as pool:
        answers = list(
            pool.map(lambda p: in_process(code.format(p, port), 120, **variables), range(2))
        )
    for process, (good, answer) in enumerate(answers):
        if not good:
            fix = (
                "the first error above is the likely cause; docs/hosts.md says what else it may be"
            )
            return Finding("processes", ERROR, f"process {process} of 2: {answer}", fix)
    told = json.loads(answers[0][1].splitlines()[-1])
    bandwidth = _LARGE_BYTES / told["large"] / 1e9
    detail = (
        f"2 joined in {told['start']:.2f} s; all-reduce of 4 bytes {told['small'] * 1e6:.0f} us, "
        f"of 16 MB {told['large'] * 1e3:.1f} ms ({bandwidth:.1f} GB/s)"
    )
    return Finding("processes", OK, detail)


def measure(process: int, port: int) -> None:
    """One of the two processes of :func:`check_processes`. Process 0 prints seconds, the least of several each."""
    import time

    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    begin = time.perf_counter()
    jax.distributed.initialize(f"localhost:{port}", 2, process, initialization_timeout=60)
    mesh = Mesh(np.array(jax.devices()), "x")
    told = {"start": time.perf_counter() - begin}
    spec = PartitionSpec("x")  # type: ignore[no-untyped-call]
    for name, elements, rounds in (("small", 1, 200), ("large", _LARGE_BYTES // 4, 5)):
        mine = np.full((1, elements), process + 1, np.float32)
        sharding = NamedSharding(mesh, spec)
        array = jax.make_array_from_process_local_data(sharding, mine)  # type: ignore[no-untyped-call]
        body = jax.shard_map(
            partial(jax.lax.psum, axis_name="x"), mesh=mesh, in_specs=spec, out_specs=spec
        )
        program = jax.jit(body)
        result = np.asarray(program(array).addressable_data(0))
        assert (result == 3).all(), f"WRONG: 1 + 2 gave {result.min()} to {result.max()}"
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            program(array).block_until_ready()
            times.append(time.perf_counter() - start)
        told[name] = min(times)
    if process == 0:
        print(json.dumps(told))


def check() -> list[Finding]:
    """All of it; the processes are not tried without what they need."""
    findings = [check_mpi(), check_shared_memory(), check_network()]
    if all(finding.status != ERROR for finding in findings):
        findings.append(check_processes())
    return findings
