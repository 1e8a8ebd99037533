"""A process of a job whose key-value store is a folder, with faults: ``python -m tests.core.runtime.hosts.member``.

    member PROCESS FOLDER [FAULT]

The store is healthy while the processes tell of themselves, and has its fault when MPI starts. The process then runs a
program of its own device and one over both processes, and prints what becomes of each.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np

from tests.pjrt.c_api import Api, PjrtError
from tests.pjrt.host import Client
from tests.pjrt.key_value_store import RefusedError, Store
from tests.pjrt.protos import compile_options
from tests.pjrt.test_collectives import all_reduce, attributes, program
from tripont import library_path

DOUBLE = "%r = stablehlo.add %x, %x : $a"


class Folder:
    """A key-value store of several processes."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def get(self, key: str, seconds: float) -> str:
        end = time.monotonic() + seconds
        while True:
            try:
                return (self.path / quote(key, safe="")).read_text()
            except FileNotFoundError:
                if time.monotonic() > end:
                    raise RefusedError("DEADLINE_EXCEEDED", f"nobody has told {key}") from None
            time.sleep(0.01)

    def put(self, key: str, value: str) -> None:
        new = self.path / f"{os.getpid()}.new"
        new.write_text(value)
        os.link(new, self.path / quote(key, safe=""))
        new.unlink()


class Faulty:
    """A store that fails in one way once MPI starts."""

    def __init__(self, store: Folder, fault: str) -> None:
        self.store = store
        self.fault = fault

    def get(self, key: str, seconds: float) -> str:
        fault = self.fault if key.startswith("tripont/pmi/") else ""
        if fault == "get fails":
            raise RefusedError("UNAVAILABLE", f"no connection for {key}")
        if fault == "get hangs":
            time.sleep(3600)
        value = self.store.get(key, seconds)
        return {
            "get tells nothing": "",
            "get tells rubbish": "\x01\x02 some words\n\nP0-businesscard nonsense\n\n",
            "get tells half": value[: len(value) // 2],
            "get tells other bytes": value[:-40] + "#" + value[-39:],
        }.get(fault, value)

    def put(self, key: str, value: str) -> None:
        if key == "tripont/process/1":
            fields = value.split("\t")
            fields[4] = (
                "another machine"  # on one machine MPICH exchanges its addresses in shared memory
            )
            value = "\t".join(fields)
        if key.startswith("tripont/pmi/"):
            if self.fault == "put fails":
                raise RefusedError("UNAVAILABLE", f"no connection for {key}")
            if self.fault == "put hangs":
                time.sleep(3600)
        self.store.put(key, value)


def attempt(what: str, action: Callable[[], object]) -> None:
    """Print the result of ``action``, or its error, and how long it took."""
    start = time.monotonic()
    try:
        result = action()
    except PjrtError as error:
        result = error.message.replace("\n", " ")
    print(f"{what} after {time.monotonic() - start:.1f} s: {result}", flush=True)


def main(process: int, folder: Path, fault: str = "") -> None:
    api = Api(library_path())
    faulty = Faulty(Folder(folder), fault)
    store = Store(api, faulty.get, faulty.put)
    options: dict[str, str | int | bool] = {
        "python": sys.executable,
        "prestart_worker": False,
        "node_id": process,
    }
    # What a process waits for the others does not include how long they need to start.
    (folder / f"ready {process}").touch()
    start = time.monotonic()
    while not (folder / f"ready {1 - process}").exists() and time.monotonic() < start + 100:
        time.sleep(0.005)
    start = time.monotonic()
    client = Client(api, store=store, num_nodes=2, **options)
    print(f"CLIENT after {time.monotonic() - start:.1f} s", flush=True)

    def run(body: str, devices: list[list[int]]) -> float:
        loaded = client.compile(program(body), options=compile_options(devices))
        [[out]] = client.execute(loaded, [client.buffer(np.ones((2, 3), np.float32))], events=True)
        return float(client.get(out).max())

    attempt("LOCAL", lambda: run(DOUBLE, [[process]]))
    attempt("SPANNING", lambda: run(all_reduce(attributes([[0, 1]])), [[0], [1]]))
    attempt("CLOSED", client.close)
    maps = Path("/proc/self/maps").read_text().split()
    print("SHARED", *{word for word in maps if word.startswith("/dev/shm/mpich_shm_")}, flush=True)
    (folder / f"done {process}").touch()
    while not (folder / f"done {1 - process}").exists() and time.monotonic() < start + 100:
        time.sleep(0.05)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
