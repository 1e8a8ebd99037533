"""The same transformer in JAX, Keras and PyTorch, on one device: are the results the same, and the programs?

python examples/one_model/main.py [--dump FOLDER] [--layers N] [--width N] ...
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from programs import Program, dumped, largest
from rich.console import Console
from rich.table import Table
from weights import Sizes, Weights, make_tokens, make_weights, with_numpy

# The logits are of the order of 1; what rounding to float32 leaves of them after all the sums is far below this.
TOLERANCE = 1e-3
console = Console()


@dataclass(frozen=True)
class Result:
    logits: np.ndarray
    program: Program
    reused: int


def run_jax(weights: Weights, tokens: np.ndarray, sizes: Sizes) -> np.ndarray:
    import jax
    import model_jax

    device = jax.devices("xpu")[0]
    forward = jax.jit(model_jax.forward, static_argnums=2)
    return np.asarray(forward(*jax.device_put((weights, tokens), device), sizes))


def run_keras(weights: Weights, tokens: np.ndarray, sizes: Sizes) -> np.ndarray:
    import model_keras
    import tensorflow as tf

    with tf.device("XPU:0"):
        model = model_keras.make_model(weights, sizes)
        forward = tf.function(lambda x: model(x, training=False), jit_compile=True)
        return forward(tf.constant(tokens)).numpy()


def run_torch(weights: Weights, tokens: np.ndarray, sizes: Sizes) -> np.ndarray:
    import model_torch
    import torch
    import torch_xla

    model = model_torch.make_model(weights, sizes).to("xla").eval()
    with torch.no_grad():
        logits = model(torch.from_numpy(tokens).to("xla", torch.int64))
        torch_xla.sync()
    return logits.cpu().numpy()


FRAMEWORKS: dict[str, Callable[[Weights, np.ndarray, Sizes], np.ndarray]] = {
    "JAX": run_jax,
    "Keras": run_keras,
    "PyTorch": run_torch,
}


def run(sizes: Sizes, folder: Path) -> tuple[dict[str, Result], np.ndarray]:
    """The model in each framework, and NumPy's logits."""
    from tripont.core import _tripont

    import tripont.torch_xla  # noqa: F401 - before TensorFlow: both register the same option of LLVM

    weights, tokens = make_weights(sizes), make_tokens(sizes)
    results = {}
    for name, forward in FRAMEWORKS.items():
        before, reused = dumped(folder), _tripont.worker_counters()["reused"]
        logits = forward(weights, tokens, sizes)
        program = largest(dumped(folder) - before)
        results[name] = Result(logits, program, _tripont.worker_counters()["reused"] - reused)
    return results, with_numpy(weights, tokens, sizes)


def report(results: dict[str, Result], expected: np.ndarray) -> bool:
    table = Table(title="the program of each framework")
    table.add_column("")
    for name in results:
        table.add_column(name, justify="right")
    errors = [float(np.abs(r.logits - expected).max()) for r in results.values()]
    table.add_row("largest difference of a logit from NumPy's", *(f"{e:.1e}" for e in errors))
    programs = [result.program for result in results.values()]
    table.add_row("HLO instructions received", *(str(p.received) for p in programs))
    table.add_row("HLO instructions after optimisation", *(str(p.instructions) for p in programs))
    table.add_row("fusions", *(str(p.fusions) for p in programs))
    table.add_row("library calls", *(str(p.library_calls) for p in programs))
    table.add_row("kernels", *(str(p.kernels) for p in programs))
    table.add_row(
        "estimated time on one core", *(f"{p.nanoseconds / 1e3:.0f} µs" for p in programs)
    )
    table.add_row("machine code that was there already", *(str(r.reused) for r in results.values()))
    console.print(table)

    table = Table(title="fusions and library calls that are the same in two programs")
    table.add_column("of")
    for name in results:
        table.add_column(f"also in {name}'s", justify="right")
    for name, result in results.items():
        cells = []
        for other in results.values():
            same = (result.program.pieces & other.program.pieces).total()
            cells.append(f"{same} of {result.program.pieces.total()}")
        table.add_row(name, *cells)
    console.print(table)
    good = max(errors) <= TOLERANCE
    console.print(
        "the three agree" if good else f"[red]a difference is larger than {TOLERANCE:g}[/]"
    )
    return good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--dump", type=Path, help="keep what the compiler wrote in this folder")
    for field in fields(Sizes):
        parser.add_argument(f"--{field.name}", type=int, default=field.default)
    arguments = vars(parser.parse_args())
    folder = arguments.pop("dump")
    with tempfile.TemporaryDirectory() as scratch:
        folder = folder.resolve() if folder else Path(scratch)
        os.environ["TRIPONT_DUMP_TO"] = str(folder)  # read when the runtime starts
        return 0 if report(*run(Sizes(**arguments), folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
