"""The end of a process under `torchrun`: process 0 ends last.

Process 0 keeps torch_xla's coordinator, and XLA ends a process (with a signal) that finds its coordinator gone. JAX's
processes wait for one another when they end; torch_xla's do not, so a program whose process 0 ends first would fail.
The processes tell one another through the store that torchrun's agent keeps, which outlives them.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

#: Seconds for which process 0 waits for the others (JAX's limit is the same), and in which the store must answer.
LIMIT = 300.0
ANSWER = 10.0
#: Seconds that a process on another machine has left when it says that it ends.
GRACE = 1.0


def install() -> None:
    """Have this process wait, or be waited for, in its end. Does nothing without `torchrun`."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return
    rank = int(os.environ["RANK"])
    with contextlib.suppress(Exception):
        if rank > 0:
            _store().set(f"process/{rank}", f"{_machine()} {os.getpid()}")
        atexit.register(_end, os.getpid(), rank, int(os.environ["WORLD_SIZE"]))


def _store() -> Any:
    from torch import distributed

    store = distributed.TCPStore(  # type: ignore[attr-defined]
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=False,
        timeout=timedelta(seconds=ANSWER),
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return distributed.PrefixStore(f"tripont/{attempt}", store)  # type: ignore[attr-defined]


def _machine() -> str:
    """Equal in processes that see each other's numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}-{os.stat('/proc/self/ns/pid').st_ino}"


def _end(pid: int, rank: int, world_size: int) -> None:
    if os.getpid() != pid:
        return  # a child that was forked
    with contextlib.suppress(Exception):  # the process ends in any case
        store = _store()
        if rank > 0:
            store.set(f"ended/{rank}", "")
            return
        end = time.monotonic() + LIMIT
        is_far = False
        for other in range(1, world_size):
            machine, number = store.get(f"process/{other}").decode().split()
            if machine == _machine():
                while _runs(int(number)) and time.monotonic() < end:
                    time.sleep(0.02)
            else:
                is_far = True
                store.wait([f"ended/{other}"], timedelta(seconds=max(end - time.monotonic(), 1)))
        if is_far:
            time.sleep(GRACE)


def _runs(pid: int) -> bool:
    """Whether there is such a process that has not ended (its parent may not have noticed yet)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False
