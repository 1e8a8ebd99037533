"""Work for many seeds in child processes, which may crash or hang."""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

Check = Callable[[int], str]

# How many times the allowed seconds a child on a busy machine may take, and the share of the seconds that a child works
# at least unless it hangs.
_PATIENCE: Final = 20.0
_ASLEEP: Final = 0.002


@dataclass
class Work:
    """The seconds of the CPU that children have used, with those of the processes that work for them: of the children
    that have ended, and of the one that runs.
    """

    ended: float = 0.0
    running: float = 0.0

    @property
    def seconds(self) -> float:
        return self.ended + self.running

    def end(self, spent: float) -> None:
        """The running child has ended, and has used at least ``spent`` seconds itself."""
        self.ended += max(self.running, spent)
        self.running = 0.0


def outcomes(
    seeds: range,
    check: Check,
    seconds: float = 120.0,
    work: Work | None = None,
    memory: int | None = None,
) -> Generator[tuple[int, str], None, None]:
    """Each seed with what ``check`` says of it, in children that each try one seed after another.

    A child that ends, or takes longer than ``seconds`` for a seed, is followed by another one behind that seed.
    On a busy machine a child gets more time, up to :data:`_PATIENCE` times ``seconds``, until it has used so many
    seconds of the CPU. ``work`` is told how much the children use. ``memory``: the bytes that a child may allocate, and
    each process that works for it; more is refused there, before the machine has none left.
    """
    work = Work() if work is None else work
    first = seeds.start
    while first < seeds.stop:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            _limit(memory)
            _check_all(range(first, seeds.stop), check, theirs)
        os.close(theirs)
        hung = ended = False
        try:
            for seed, what in _answers(ours, child, seconds, work):
                first = seed + 1
                yield seed, what
            ended = True
        except TimeoutError:
            hung = True
        finally:  # also if the caller wants no more
            os.close(ours)
            if not ended:
                work.running = max(work.running, _cpu_seconds(child))
                os.kill(child, signal.SIGKILL)
            _, status, spent = os.wait4(child, 0)
            work.end(spent.ru_utime + spent.ru_stime)
            status = os.waitstatus_to_exitcode(status)
        if first < seeds.stop:
            yield first, f"hangs for {seconds:.0f} s" if hung else f"ends the process with {status}"
            first += 1


def outcome(check: Callable[[], str], seconds: float = 60.0, memory: int | None = None) -> str:
    """What ``check`` says, in a child."""
    return next(outcomes(range(1), lambda _: check(), seconds, memory=memory))[1]


def _limit(memory: int | None) -> None:
    """Let this process, and those that it starts, have so many bytes of private memory each.

    Address space is not limited: TensorFlow and LLVM reserve more of it than there is memory.
    """
    if memory is not None:
        _, most = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory, most))


def _cpu_seconds(process: int) -> float:
    """How many seconds of the CPU a process has used, its threads and the processes that work for it included, also
    those that it has waited for.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        others = [f.read_text() for f in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it has ended
        return 0.0
    used = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return used + sum(_cpu_seconds(int(other)) for other in " ".join(others).split())


def _answers(pipe: int, child: int, seconds: float, work: Work) -> Iterator[tuple[int, str]]:
    rest, begin, used = b"", time.monotonic(), _cpu_seconds(child)
    while True:
        waited = time.monotonic() - begin
        ready, _, _ = select.select(
            [pipe], [], [], max(0.0, min(seconds, seconds * _PATIENCE - waited))
        )
        if not ready:
            waited = time.monotonic() - begin
            worked = _cpu_seconds(child) - used
            # What sleeps hangs; what works slowly shares the machine with others.
            if waited > seconds * _PATIENCE or worked > seconds or worked < seconds * _ASLEEP:
                raise TimeoutError
            continue
        read = os.read(pipe, 1 << 16)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            seed, _, what = line.decode().partition(" ")
            yield int(seed), what
        if lines:
            begin, used = time.monotonic(), _cpu_seconds(child)
            work.running = max(work.running, used)


# Pools whose threads are in another process: a pool waits for its threads when it ends.
_LOST: Final[list[object]] = []


def _have_threads() -> None:
    """Give JAX threads for MLIR: the child lacks those of the process that was forked, and would wait for them."""
    mlir = sys.modules.get("jax._src.interpreters.mlir")
    if mlir is not None and hasattr(mlir, "global_thread_pool"):
        _LOST.append(mlir.global_thread_pool)
        mlir.global_thread_pool = type(mlir.global_thread_pool)()


def _check_all(seeds: range, check: Check, pipe: int) -> None:
    _have_threads()
    for seed in seeds:
        try:
            what = check(seed)
        except Exception as error:  # whatever it is, it is this seed's
            what = f"{type(error).__name__}: {error}"
        os.write(pipe, f"{seed} {' '.join(what.split())[:3000]}\n".encode())
    os._exit(0)
