"""Every pass on data: ``python -m tests.fuzz.passes`` checks the programs of the suites, ``--random 500`` others too.

For each program, random arguments go through the evaluator before and after each pass
(:mod:`tripont.core.compiler.observe.pass_checks`). A pass that changes numbers is named.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tripont.core.compiler import pipeline, targets
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.recursion import deep_recursion
from tripont.core.compiler.observe import pass_checks

from tests.conformance import device, registry
from tests.fuzz.fuzzers import FUZZERS

PROGRAMS: Final = Path(__file__).parents[1] / "data" / "programs"


def suites(rest: int = 0) -> Iterator[tuple[str, bytes, str]]:
    """Name, program and format. ``rest``: the first configuration of every op and one in so many others; 0 for all."""
    for path in sorted(PROGRAMS.glob("*.mlir")) + sorted(PROGRAMS.glob("*.hlo")):
        yield path.name, path.read_bytes(), "mlir" if path.suffix == ".mlir" else "hlo"
    cases = registry.load()
    for case in registry.sample(cases, rest) if rest else cases:
        if case.refused:
            continue
        if device.is_hlo_text(case.program):
            yield case.name, device.as_hlo(case.program), "hlo"
        else:
            yield case.name, case.program.encode(), "mlir"


def random_programs(count: int, seed: int) -> Iterator[tuple[str, bytes, str]]:
    for n in range(seed, seed + count):
        for name, make in FUZZERS.items():
            if "large" not in name:
                yield f"{name} {n}", make(n).text.encode(), "mlir"


@deep_recursion()
def report(program: bytes, format: str) -> pass_checks.Report:
    module = read_program(program, format)
    target = targets.from_options({"target": "host", "cpu": "host"})
    return pass_checks.check(module, pipeline.named(pipeline.PASSES, target))


def main() -> int:
    parser = argparse.ArgumentParser(prog="passes", description=__doc__)
    parser.add_argument("--rest", type=int, default=0, help="one in so many configurations; 0: all")
    parser.add_argument(
        "--random", type=int, default=0, help="how many random programs of each kind"
    )
    parser.add_argument("--seed", type=int, default=0, help="the first of these")
    given = parser.parse_args()
    begin = time.monotonic()
    counts: collections.Counter[str] = collections.Counter()
    programs = (
        [suites(given.rest)] if not given.random else [random_programs(given.random, given.seed)]
    )
    for source in programs:
        for name, program, format in source:
            try:
                made = report(program, format)
            except CompileError as error:
                counts["refused"] += 1
                print(f"{name}: {error}", flush=True)
                continue
            counts["programs"] += 1
            counts["passes"] += made.checked
            counts["not evaluated"] += bool(made.unknown and not made.checked)
            if made.wrong:
                counts["wrong"] += 1
                print(f"{name}: {made.wrong[0]}", flush=True)
    told = ", ".join(
        f"{counts[k]} {k}" for k in ("programs", "passes", "not evaluated", "refused", "wrong")
    )
    print(f"{told}, in {time.monotonic() - begin:.0f} s")
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
