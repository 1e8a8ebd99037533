"""Tries programs of many seeds: ``python -m tests.conformance.random_programs --seed 1000 --count 500``.

TRIPONT_CONFORMANCE_TARGET names the target. A program that fails is written to ``--folder`` as SEED.mlir.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from random import Random

from tests.conformance.random_programs.builder import OPERATIONS
from tests.conformance.random_programs.programs import Program, differences, program
from tests.fuzz.children import outcomes


def main() -> int:
    parser = argparse.ArgumentParser(prog="random_programs", description=__doc__)
    parser.add_argument("--seed", type=int, default=1000, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--length", type=int, default=25, help="the most operations of a program")
    parser.add_argument("--only", action="append", default=[], help="an operation's function")
    parser.add_argument("--large", action="store_true", help="larger arrays, judged by NumPy")
    parser.add_argument("--inexact", action="store_true", help="any floats, and functions")
    parser.add_argument("--hlo", action="store_true", help="as HloModuleProto too")
    parser.add_argument("--folder", type=Path, help="where programs that fail are written")
    given = parser.parse_args()
    chosen = [o for o in OPERATIONS if not given.only or o.__name__ in given.only]

    def make(seed: int) -> Program:
        return program(Random(seed), given.length, chosen, given.large, exact=not given.inexact)

    def check(seed: int) -> str:
        return " | ".join(differences(make(seed), given.hlo))

    failed = 0
    for seed, what in outcomes(range(given.seed, given.seed + given.count), check):
        if not what:
            continue
        failed += 1
        print(f"{seed}: {what[:1000]}", flush=True)
        if given.folder is not None:
            (given.folder / f"{seed}.mlir").write_text(make(seed).text)
    print(f"{failed} of {given.count} fail")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
