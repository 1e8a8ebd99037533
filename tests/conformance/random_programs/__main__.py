"""Tries programs of many seeds: ``python -m tests.conformance.random_programs --seed 1000 --count 500``.

TRIPONT_CONFORMANCE_TARGET names the target. A program that fails is written to ``--folder`` as SEED.mlir.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

from tests.conformance.random_programs.builder import OPERATIONS
from tests.conformance.random_programs.programs import Program, differences, program


def main() -> int:
    parser = argparse.ArgumentParser(prog="random_programs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1000, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--length", type=int, default=25, help="the most operations of a program")
    parser.add_argument("--only", action="append", default=[], help="an operation's function")
    parser.add_argument("--large", action="store_true", help="larger arrays, judged by NumPy")
    parser.add_argument("--hlo", action="store_true", help="as HloModuleProto too")
    parser.add_argument("--folder", type=Path, help="where programs that fail are written")
    given = parser.parse_args()
    chosen = [o for o in OPERATIONS if not given.only or o.__name__ in given.only]

    def make(seed: int) -> Program:
        return program(Random(seed), given.length, chosen, given.large)

    failed = 0
    for seed, what in _outcomes(range(given.seed, given.seed + given.count), make, given.hlo):
        if not what:
            continue
        failed += 1
        print(f"{seed}: {what[:1000]}", flush=True)
        if given.folder is not None:
            (given.folder / f"{seed}.mlir").write_text(make(seed).text)
    print(f"{failed} of {given.count} fail")
    return 1 if failed else 0


def _outcomes(
    seeds: range, make: Callable[[int], Program], as_hlo: bool
) -> Iterator[tuple[int, str]]:
    """What is wrong with the program of each seed, from children: the interpreter may end one."""
    first = seeds.start
    while first < seeds.stop:
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            _try_all(range(first, seeds.stop), make, as_hlo, theirs)
        os.close(theirs)
        begun = first
        with os.fdopen(ours) as lines:
            for line in lines:
                kind, number, rest = line.rstrip("\n").split(" ", 2)
                begun = int(number)
                if kind == "done":
                    first = begun + 1
                    yield begun, rest
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if first < seeds.stop:
            yield begun, f"ends the process with {status}"
            first = begun + 1


def _try_all(seeds: range, make: Callable[[int], Program], as_hlo: bool, pipe: int) -> None:
    for seed in seeds:
        os.write(pipe, f"begin {seed} \n".encode())
        try:
            what = " | ".join(differences(make(seed), as_hlo))
        except Exception as error:  # whatever it is, it is this program's
            what = f"{type(error).__name__}: {error}"
        os.write(pipe, f"done {seed} {' '.join(what.split())[:3000]}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
