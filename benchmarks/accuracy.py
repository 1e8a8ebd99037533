"""Errors of the mathematical functions on each target, in units in the last place (ulps).

python -m benchmarks.accuracy                              a table in Markdown
python -m benchmarks.accuracy exp log --dtypes float32     those functions and dtypes only
python -m benchmarks.accuracy --targets host XLA:CPU       without a SYCL device
python -m benchmarks.accuracy --write docs/accuracy.md     the page of all functions and dtypes (minutes)

Every function is computed on host, on a SYCL device and by JAX's own CPU backend. float16 and bfloat16: all arguments
there are; float32 and float64: random bit patterns (so that every exponent comes, denormal numbers and NaN too), the
ranges where functions bend, whole numbers, halves and multiples of pi/2 and their neighbours, zeros, infinities: a
million and more. The reference is NumPy or SciPy in a wider format; where there is none (float64's special functions,
functions of several arguments, complex numbers) it is mpmath, for some thousands of arguments.

An error is the distance to the true result in units in the last place of the format there, denormal numbers included;
infinite where one is NaN or infinite and the other is not. Where it is larger with denormal arguments and results than
without (XLA takes them for 0), that without follows in brackets. The error of a complex number is in units of the last
place of its larger part; in brackets, of each part. "differ" counts all results that are not the same bits on host and
sycl.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.accuracy_errors import PARTS, TARGETS, WIDER, compute, measured, names_of, row
from benchmarks.accuracy_page import write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.accuracy", description=__doc__)
    parser.add_argument("names", nargs="*", help="functions; all without")
    parser.add_argument("--targets", nargs="+", choices=list(TARGETS), default=list(TARGETS))
    parser.add_argument(
        "--dtypes", nargs="+", choices=[*WIDER, *PARTS], default=["float32", "float64"]
    )
    parser.add_argument("--write", type=Path, help="write docs/accuracy.md")
    parser.add_argument("--compute", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.compute:
        platform, folder = options.compute
        compute(platform, options.names, options.dtypes, Path(folder))
        return 0
    with tempfile.TemporaryDirectory() as top:
        if options.write:
            write(options.write, top)
            return 0
        folders = measured(options.targets, options.names, options.dtypes, top)
        compared = {"host", "sycl"} <= set(folders)
        columns = [*folders, *(["differ"] if compared else [])]
        print(f"| function | dtype | {' | '.join(columns)} |")
        print("|---" * (len(columns) + 2) + "|")
        for dtype in options.dtypes:
            for name in names_of(dtype, options.names):
                cells, results = row(folders, name, dtype)
                if compared:
                    host, sycl = results["host"], results["sycl"]
                    differ = (host != sycl) & ~(np.isnan(host) & np.isnan(sycl))
                    cells.append(str(int(np.sum(differ))))
                print(f"| {name} | {dtype} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
