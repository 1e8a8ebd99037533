"""Work for many seeds in child processes, which may crash or hang."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Generator, Iterator

Check = Callable[[int], str]


def outcomes(
    seeds: range, check: Check, seconds: float = 120.0
) -> Generator[tuple[int, str], None, None]:
    """Each seed with what ``check`` says of it, in children that each try one seed after another.

    A child that ends, or takes longer than ``seconds`` for a seed, is followed by another one behind that seed.
    """
    first = seeds.start
    while first < seeds.stop:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            _check_all(range(first, seeds.stop), check, theirs)
        os.close(theirs)
        hung = ended = False
        try:
            for seed, what in _answers(ours, seconds):
                first = seed + 1
                yield seed, what
            ended = True
        except TimeoutError:
            hung = True
        finally:  # also if the caller wants no more
            os.close(ours)
            if not ended:
                os.kill(child, signal.SIGKILL)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if first < seeds.stop:
            yield first, f"hangs for {seconds:.0f} s" if hung else f"ends the process with {status}"
            first += 1


def outcome(check: Callable[[], str], seconds: float = 60.0) -> str:
    """What ``check`` says, in a child."""
    return next(outcomes(range(1), lambda _: check(), seconds))[1]


def _answers(pipe: int, seconds: float) -> Iterator[tuple[int, str]]:
    rest, deadline = b"", time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise TimeoutError
        read = os.read(pipe, 1 << 16)
        if not read:
            return
        *lines, rest = (rest + read).split(b"\n")
        for line in lines:
            seed, _, what = line.decode().partition(" ")
            yield int(seed), what
            deadline = time.monotonic() + seconds


def _check_all(seeds: range, check: Check, pipe: int) -> None:
    for seed in seeds:
        try:
            what = check(seed)
        except Exception as error:  # whatever it is, it is this seed's
            what = f"{type(error).__name__}: {error}"
        os.write(pipe, f"{seed} {' '.join(what.split())[:3000]}\n".encode())
    os._exit(0)
