"""docs/accuracy.md: the errors of every function and dtype, ours and XLA:CPU's, by :mod:`benchmarks.accuracy`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

from benchmarks.accuracy_errors import PARTS, WIDER, measured, names_of, row
from benchmarks.accuracy_references import FUNCTIONS

_TARGETS: Final = ["host", "XLA:CPU"]
_SHORT: Final = {
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "float16": "f16",
    "complex64": "c64",
    "complex128": "c128",
}
_HEAD: Final = """\
# Accuracy

The largest errors of the mathematical functions in units in the last place (ulp), tripont's and JAX's own CPU
backend's on the same arguments. This page is written by `python -m benchmarks.accuracy --write docs/accuracy.md` (it
needs mpmath: `pip install tripont[accuracy]`); the module says which arguments those are. On the OpenCL CPU device the
results are those of the host to the last bit ([sycl.md](sycl.md)).

An error of 0.5 is that of the rounding. "wrong": NaN or infinite where the true result is a number, or the other way
round. In brackets, where it is less: the error without denormal arguments and results, which XLA:CPU mostly takes for
zero.
"""
_NOTES: Final = """\

Functions of f16 and bf16 are computed in f32 and rounded once. f32 arguments from 2^-13 to 128, each of them: tan 0.53,
log 0.87, log1p 1.44, expm1 1.56, tanh 2.57, sinh and cosh 2.35, logistic 2.41, erf 1.13, erfc 4.24, exp and exp2 1.03.
At the very zeros of digamma its error is up to 10. Without fused multiply-add (CPUs before Haswell) the same bounds
hold, but for erf of f32 (1.4), and functions take two to ten times as long.

The Bessel functions, asinh, acosh and atanh are what JAX and StableHLO expand into elementary functions, the same for
all. The others reach the compiler as they are from JAX; TensorFlow and PyTorch/XLA have expanded erfc, erf_inv and the
functions of several arguments before.
"""
_SEVERAL: Final = """\

## Functions of several arguments

All but `random_gamma_grad`, which is a formula of JAX's and no primitive, are tripont's own; f32 is computed in f64 (on
devices without f64 it has errors like f64's). The table is for parameters up to 1,000 or so; with larger and smaller
ones, up to the ends of the format, errors are no larger (tests/core/compiler/codegen/test_incomplete_functions.py);
XLA:CPU's igamma has one digit at 10^5.
"""
_COMPLEX: Final = """\

## Complex numbers

The error of a number in units of the last place of its larger part, and in brackets that of each part in its own units.
(Products, quotients, squares and expm1 lose digits of a part where two terms leave each other; the number has them.)
Where the result is beyond the format's range nothing is compared; zeros, infinities and NaN as arguments are tested
against C99 (tests/conformance/test_complex_values.py). From JAX, exp, expm1, sin, cos, asin, acos, atan, asinh, acosh
and atanh are expanded before the compiler sees them, and have XLA:CPU's signs of zeros and NaNs.
"""


def write(path: Path, top: str) -> None:
    """Measure everything and write the page. ``top``: a folder for the results."""
    folders = measured(_TARGETS, [], [*WIDER, *PARTS], top)
    several = [name for name, function in FUNCTIONS.items() if function.arguments is not None]
    real = [name for name in FUNCTIONS if name not in several]
    text = _HEAD
    text += _table(folders, ["float32", "float64", "bfloat16", "float16"], real)
    text += _NOTES + _SEVERAL + _table(folders, ["float32", "float64"], several)
    text += _COMPLEX + _table(folders, list(PARTS), [])
    command = [sys.executable, "-m", "benchmarks.accuracy_sums"]
    text += subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    path.write_text(text)


def _table(folders: dict[str, Path], dtypes: list[str], chosen: list[str]) -> str:
    header = [f"{_SHORT[d]}{' XLA:CPU' if n else ''}" for d in dtypes for n in range(2)]
    lines = ["", f"| function | {' | '.join(header)} |", "|---" * (len(header) + 1) + "|"]
    for name in names_of(dtypes[0], chosen):
        cells = [cell for d in dtypes for cell in row(folders, name, d)[0]]
        written = ["wrong" + c.removeprefix("inf") if c.startswith("inf") else c for c in cells]
        lines.append(f"| {name} | {' | '.join(written)} |")
        print(lines[-1], flush=True)
    return "\n".join(lines) + "\n"
