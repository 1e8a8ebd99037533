"""``python -m tests.fuzz --minutes 30 --folder FOLDER``: all fuzzers in turn; or ``--only NAME --seed 7 --count 1``.

The folder keeps where each fuzzer stands (``state.json``, so that the next run goes on there, with the seconds of the
CPU that its programs took), digests of the programs (``tried``, which say how many are different), and a folder for
each program that fails: the program as it was made and made small, its arguments, and a text that says what is wrong.
Of ``--jobs 2`` the second has seeds of its own, and a folder ``job1`` in that of the first.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pickle
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from tests.fuzz import children, shrink
from tests.fuzz.distinct import Tried
from tests.fuzz.fuzzers import FRAMEWORKS, FUZZERS
from tests.fuzz.judge import Case, findings, kind_of

_FIRST_SEED: Final = 1_000_000  # of a new corpus: the suite's seeds are smaller
_MOST: Final = 1_000_000  # programs of a turn
_SEEDS_OF_A_JOB: Final = 10**10  # which no run comes to the end of
_CASE: Final = "case.pickle"  # what a program is made small from
_SAVED_EVERY: Final = 30.0  # seconds
# Of the CPU that a smaller program may take: its loop may have lost its end.
_SECONDS_OF_SMALLER: Final = 10.0


def check(name: str, seed: int, tried: Tried) -> str:
    """What is wrong with the program of a seed; empty if nothing is.

    ``tried``: where its text is noted, if it has one.
    """
    if name in FRAMEWORKS:
        return " | ".join(FRAMEWORKS[name](seed))
    case = FUZZERS[name](seed)
    tried.add(case.text)
    return " | ".join(findings(case, seed))


class Corpus:
    """The folder: where fuzzers stand, and what failed."""

    def __init__(self, whole: Path, job: int = 0) -> None:
        """``whole``: the folder of all jobs, which note together what they have tried."""
        self.folder = folder = whole / f"job{job}" if job else whole
        self._first = _FIRST_SEED + job * _SEEDS_OF_A_JOB
        folder.mkdir(parents=True, exist_ok=True)
        self._tried = whole / "tried"
        self._tried.mkdir(exist_ok=True)
        self._file = folder / "state.json"
        self.state: dict[str, dict[str, float]] = {}
        if self._file.exists():
            self.state = json.loads(self._file.read_text())

    def standing(self, name: str) -> dict[str, float]:
        new = {"next": self._first, "programs": 0, "failed": 0, "cpu_seconds": 0.0}
        standing = self.state.setdefault(name, new)
        standing.setdefault("cpu_seconds", 0.0)  # which earlier versions did not count
        return standing

    def tried(self, name: str) -> Tried:
        return Tried(self._tried / name)

    def save(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self.state, indent=1) + "\n")
        fresh.replace(self._file)

    def add(self, name: str, seed: int, what: str) -> Path:
        """Write down a program that failed."""
        folder = self.folder / f"{name}-{seed}"
        folder.mkdir(exist_ok=True)
        (folder / "what.txt").write_text(
            f"{what}\n\npython -m tests.fuzz --only {name} --seed {seed} --count 1\n"
        )
        if name in FRAMEWORKS:  # the seed is all that there is of a function
            return folder
        case = FUZZERS[name](seed)
        (folder / "program.mlir").write_text(case.text)
        np.savez(folder / "arguments.npz", *[np.asarray(a) for a in case.arguments])
        (folder / _CASE).write_bytes(pickle.dumps(case))
        return folder

    def make_small(self, name: str, seed: int, what: str) -> Path:
        """Write down a smaller program that fails as the one that was added does."""
        folder = self.folder / f"{name}-{seed}"
        case = pickle.loads((folder / _CASE).read_bytes())
        if case.xla:
            import jax  # noqa: F401  # once, and not in the process of each smaller program
        small = shrink.shrunk(case, lambda c: _still_fails(c, seed, kind_of(what)))
        (folder / "small.mlir").write_text(small.text)
        return folder / "small.mlir"


def _still_fails(case: Case, seed: int, kind: str) -> bool:
    said = children.outcome(lambda: " | ".join(findings(case, seed)), _SECONDS_OF_SMALLER)
    return bool(said) and kind_of(said) == kind


def _write_down(corpus: Corpus, name: str, seed: int, what: str, small: bool) -> None:
    """Add a program to the corpus and make it small, each in a child, as this process must not load what has threads.

    Nor may the process that makes it small have made it with JAX: each smaller program runs in a fork of that process,
    and a fork of a process that has started XLA waits for ever for XLA's threads.
    """
    print(f"  {children.outcome(lambda: str(corpus.add(name, seed, what)))}", flush=True)
    if small and name not in FRAMEWORKS:
        made = children.outcome(lambda: str(corpus.make_small(name, seed, what)), seconds=1200)
        print(f"  {made}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument(
        "--only", choices=[*FUZZERS, *FRAMEWORKS], action="append", help="a fuzzer; may be repeated"
    )
    parser.add_argument("--seed", type=int, help="the first seed; else where the last run stopped")
    parser.add_argument("--count", type=int, default=0, help="how many programs of each fuzzer")
    parser.add_argument("--minutes", type=float, default=0, help="stop after this time")
    parser.add_argument("--folder", type=Path, default=Path("build/fuzz"), help="the corpus")
    parser.add_argument("--no-shrink", action="store_true", help="leave programs as they are")
    parser.add_argument(
        "--jobs", type=int, default=1, help="processes at once; --count is of each of them"
    )
    given = parser.parse_args()
    return _at_once(given.jobs, lambda job: _run(given, job))


def _at_once(jobs: int, run: Callable[[int], int]) -> int:
    """The largest status of ``run(0)``, ``run(1)``, .., which all but the first are forks of this process for."""
    others = []
    for job in range(1, jobs):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                status = run(job)
            finally:
                sys.stdout.flush()
                os._exit(status)
        others.append(child)
    status = run(0)
    return max(status, *(os.waitstatus_to_exitcode(os.waitpid(c, 0)[1]) for c in others), 0)


def _run(given: argparse.Namespace, job: int) -> int:
    """What one of several processes does: 1 if a program is wrong."""
    corpus = Corpus(given.folder, job)
    seed = None if given.seed is None else given.seed + job * (given.count or _SEEDS_OF_A_JOB)
    names = given.only or [*FUZZERS, *FRAMEWORKS]
    begin = time.monotonic()
    end = begin + 60 * given.minutes if given.minutes else math.inf
    failed = 0
    following = {} if seed is None else dict.fromkeys(names, seed)
    # Turns grow, so that a short run tries every fuzzer and a long one seldom starts a child anew.
    turn = 20.0
    while True:
        for name in names:
            until = math.inf if given.count else min(end, time.monotonic() + turn)
            first = following.get(name, int(corpus.standing(name)["next"]))
            wrong, following[name] = _turn(
                corpus, name, first, given.count, until, not given.no_shrink
            )
            failed += wrong
            if time.monotonic() > end:
                return 1 if failed else 0
        if given.count or not given.minutes:
            return 1 if failed else 0
        turn = min(600.0, turn * 2)


def _turn(
    corpus: Corpus, name: str, first: int, count: int, until: float, small: bool
) -> tuple[int, int]:
    """Try ``count`` programs of a fuzzer, or as many as there is time for, from the seed ``first`` on.

    Returns how many are wrong, and the seed to go on with. ``until``: a time of the monotonic clock. ``small``: whether
    what fails is made small.
    """
    standing, programs = corpus.standing(name), corpus.tried(name)
    started = saved = time.monotonic()
    used_before = standing["cpu_seconds"]
    tried, bad = 0, 0
    work = children.Work()
    told = children.outcomes(
        range(first, first + (count or _MOST)), lambda s: check(name, s, programs), work=work
    )
    for seed, what in told:
        tried += 1
        standing["programs"] += 1
        standing["next"] = max(standing["next"], seed + 1)
        if what:
            bad += 1
            standing["failed"] += 1
            print(f"{name} {seed}: {what[:600]}", flush=True)
            _write_down(corpus, name, seed, what, small)
        now = time.monotonic()
        if now > saved + _SAVED_EVERY:
            standing["cpu_seconds"] = round(used_before + work.seconds, 2)
            corpus.save()
            saved = now
        if now > until:
            break
    told.close()
    standing["cpu_seconds"] = round(used_before + work.seconds, 2)
    corpus.save()
    rate = 60 * tried / (time.monotonic() - started)
    each = 1000 * work.seconds / max(tried, 1)
    different = f", {programs.count()} different ones so far" * (name in FUZZERS)
    print(
        f"{name}: {tried} programs, {bad} wrong, {rate:.0f} a minute,"
        f" {each:.1f} ms of the CPU each{different}",
        flush=True,
    )
    return bad, first + tried


if __name__ == "__main__":
    sys.exit(main())
