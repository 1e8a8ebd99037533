"""Errors of long sums: reductions, products, convolutions and cumulative reductions of terms of one sign, in f32.

python -m benchmarks.accuracy_sums                          the section of docs/accuracy.md
python -m benchmarks.accuracy_sums --lengths 100000 sum dot  other lengths, programs by words in their names

Every program is computed by tripont and by JAX's own CPU backend in one process, and by NumPy where it has the
function, and compared with the same in f64. Errors are relative, of the worst element. Terms are all 0.1, where the
roundings of a running sum have one sign, or uniform in [0, 1).
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]
SIZES: Final = [1 << 16, 1 << 20]


@dataclass(frozen=True)
class Program:
    """``shapes(n)``: of the operands, of which the first holds the terms and the others ones; ``numpy``: None if it has
    no such function of its own.
    """

    name: str
    jax: Callable[..., Any]
    exact: Callable[..., Array]
    numpy: Callable[..., Array] | None
    shapes: Callable[[int], Sequence[tuple[int, ...]]]


def programs() -> list[Program]:
    import jax
    import jax.numpy as jnp

    def same(name: str, function: Callable[[Any], Callable[..., Any]], shapes: Any) -> Program:
        return Program(name, function(jnp), function(np), function(np), shapes)

    def convolved(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID")

    def segments(x: Any) -> Any:
        return jax.ops.segment_sum(x, jnp.zeros(len(x), np.int32), 1)

    return [
        same("`sum` of [n]", lambda m: m.sum, lambda n: [(n,)]),
        same("`sum` of [n, 4] over n", lambda m: lambda x: m.sum(x, 0), lambda n: [(n, 4)]),
        same("`sum` of [n, 100] over n", lambda m: lambda x: m.sum(x, 0), lambda n: [(n, 100)]),
        same("`mean` of [4, n] over n", lambda m: lambda x: m.mean(x, 1), lambda n: [(4, n)]),
        same("`dot` of [n] and [n]", lambda m: m.dot, lambda n: [(n,), (n,)]),
        same("`dot` of [16, n] and [n]", lambda m: m.dot, lambda n: [(16, n), (n,)]),
        same("`dot` of [n] and [n, 64]", lambda m: lambda x, y: m.dot(y, x), lambda n: [(n, 64), (n,)]),
        same("`dot` of [64, n] and [n, 64]", lambda m: m.dot, lambda n: [(64, n), (n, 64)]),
        Program(
            "convolution with kernels of n", convolved,
            lambda x, kernel: np.sum(x * kernel, axis=(1, 2, 3)).reshape(1, 1, 1, 1), None,
            lambda n: [(1, n // 64, 8, 8), (1, n // 64, 8, 8)],
        ),
        same("`cumsum` of [n]", lambda m: m.cumsum, lambda n: [(n,)]),
        same("`cumsum` of [n, 4] over n", lambda m: lambda x: m.cumsum(x, 0), lambda n: [(n, 4)]),
        Program(
            "`cumlogsumexp` of [n]", jax.lax.cumlogsumexp, np.logaddexp.accumulate,
            np.logaddexp.accumulate, lambda n: [(n,)],
        ),
        Program("`segment_sum` of [n] into one", segments, lambda x: np.sum(x)[None], None, lambda n: [(n,)]),
    ]  # fmt: skip


def error(got: Any, exact: Array) -> str:
    wide = np.asarray(got).astype(np.float64)
    return f"{np.max(np.abs(wide - exact) / np.abs(exact)):.1e}"


def section(lengths: Sequence[int] = SIZES, words: Sequence[str] = ()) -> str:
    """The table in Markdown, with what is said about it."""
    import jax

    names = [
        f"{terms}, {who}" for terms in ("0.1", "uniform") for who in ("tripont", "XLA:CPU", "NumPy")
    ]
    lines = [_HEAD, f"| program | n | {' | '.join(names)} |", "|---" * (len(names) + 2) + "|"]
    chosen = [p for p in programs() if not words or any(w in p.name for w in words)]
    for program in chosen:
        for n in lengths:
            cells = []
            for uniform in (False, True):
                rng = np.random.default_rng(0)
                shapes = program.shapes(n)
                term = np.float32(0.1)
                first = rng.random(shapes[0], np.float32) if uniform else np.full(shapes[0], term)
                operands = [first, *(np.ones(shape, np.float32) for shape in shapes[1:])]
                exact = program.exact(*(x.astype(np.float64) for x in operands))
                for platform in ("xpu", "cpu"):
                    xs = jax.device_put(operands, jax.devices(platform)[0])
                    cells.append(error(jax.jit(program.jax)(*xs), exact))
                cells.append(error(program.numpy(*operands), exact) if program.numpy else "")
            lines.append(f"| {program.name} | {n:,} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines) + "\n"


_HEAD: Final = """\

## Long sums

Relative errors of the worst element in f32, of terms that are all 0.1 (where the roundings of a running sum have one
sign) and of uniform ones, by `python -m benchmarks.accuracy_sums`; half an epsilon is 6.0e-8. Sums take their terms
in blocks (core/compiler/codegen/kernels/accumulation.py), so that a term goes through a number of additions that grows
with the logarithm of n: tests/core/compiler/codegen/kernels/test_accumulation.py has the bound. Products of two
matrices that are as large as these are oneDNN's, which adds up longer runs. Convolutions of more than 4,096 terms
(gradients of inputs: 16,384) are generated ([cpus.md](cpus.md#convolutions)): a term is added to the at most 256 of its
piece, and the pieces are added up in the same way (tests/core/compiler/codegen/kernels/test_window_product.py has the
bound). Shorter ones, and gradients of weights, are oneDNN's where there is one, which loses up to ten times as many
digits as XLA:CPU on equal terms in forward convolutions (4.1e-5 at 4,608 terms before), and fewer in gradients of
weights (2.5e-6 against 3.2e-5 at 23,328). Sums by segment are one running sum for each segment, as everywhere.
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("words", nargs="*", help="words in the names of programs")
    parser.add_argument(
        "--lengths", type=lambda text: [int(n) for n in text.split(",")], default=SIZES
    )
    given = parser.parse_args()
    os.environ["JAX_PLATFORMS"] = "xpu,cpu"
    print(section(given.lengths, given.words), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
