"""A kernel that is written once, called from JAX, TensorFlow and PyTorch/XLA on their own arrays.

Prints a table: whether the results are those of NumPy, where the arrays lie, and where kernels find them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import tripont.torch_xla  # noqa: I001 - before TensorFlow: both register the same option of LLVM
import torch
import torch_xla
import jax
import numpy as np
import tensorflow as tf
from rich.console import Console
from rich.table import Table

import tripont.kernels
from tripont import interop

FOLLOW = tripont.kernels.from_c(
    """
    void follow(const float* x, int64_t x_dim1, float decay, int64_t begin, int64_t end, float* y) {
        for (int64_t row = begin; row < end; ++row) {
            float envelope = 0;
            for (int64_t i = row * x_dim1; i < (row + 1) * x_dim1; ++i) {
                const float magnitude = x[i] < 0 ? -x[i] : x[i];
                envelope *= decay;
                if (magnitude > envelope) envelope = magnitude;
                y[i] = envelope;
            }
        }
    }
    """,
    work="rows",
)
# Where its operand lies, as two halves (JAX has no 64-bit integers unless it is told to).
ADDRESS = tripont.kernels.from_c(
    "void address(const void* x, uint32_t* halves) { memcpy(halves, &x, sizeof(x)); }",
    shapes=lambda x: (2,),
)
DECAY = 0.98
console = Console()


@dataclass(frozen=True)
class Framework:
    """``put``: an array of NumPy's on the device; ``program``: the kernel, compiled with what is around it."""

    name: str
    put: Callable[[np.ndarray], Any]
    program: Callable[[Any], Any]


def with_jax() -> Framework:
    device = jax.devices("xpu")[0]
    program = jax.jit(lambda x: 2 * FOLLOW(x - 0.5, decay=DECAY) + 1)
    return Framework("JAX", lambda x: jax.device_put(x, device), program)


def with_tensorflow() -> Framework:
    traced = tf.function(lambda x: 2 * FOLLOW(x - 0.5, decay=DECAY) + 1, jit_compile=True)

    def put(x: np.ndarray) -> Any:
        with tf.device("XPU:0"):
            return tf.identity(tf.constant(x))

    def program(x: Any) -> Any:
        with tf.device("XPU:0"):
            return traced(x)

    return Framework("TensorFlow", put, program)


def with_torch() -> Framework:
    def program(x: Any) -> Any:
        y = 2 * FOLLOW(x - 0.5, decay=DECAY) + 1
        torch_xla.sync(wait=True)
        return y

    return Framework("PyTorch/XLA", lambda x: torch.from_numpy(x).to("xla"), program)


def with_numpy(x: np.ndarray) -> np.ndarray:
    """The same, for comparison."""
    x = np.abs(x - np.float32(0.5))
    envelope = np.zeros_like(x)
    last = np.zeros(len(x), np.float32)
    for i in range(x.shape[1]):
        last = np.maximum(x[:, i], last * np.float32(DECAY))
        envelope[:, i] = last
    return 2 * envelope + 1


def seen_by_the_kernel(array: Any) -> int:
    """The address at which a kernel that is called with ``array`` finds it."""
    low, high = (int(half) for half in interop.to_numpy(ADDRESS(array)))
    return low | high << 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--samples", type=int, default=16000)
    arguments = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((arguments.rows, arguments.samples))
    signal = x.astype(np.float32)
    expected = with_numpy(signal)

    table = Table(title=f"follow(f32[{arguments.rows},{arguments.samples}]), written once")
    labels = (
        "called from",
        "the result is NumPy's",
        "the operand lies at",
        "a kernel reads it at",
        "the result lies at",
        "the next kernel reads at",
    )
    columns = []
    good = True
    for framework in (with_jax(), with_tensorflow(), with_torch()):
        operand = framework.put(signal)
        result = framework.program(operand)
        equal = np.array_equal(interop.to_numpy(result), expected)
        addresses = [
            address(array)
            for array in (operand, result)
            for address in (interop.pointer, seen_by_the_kernel)
        ]
        good = good and equal and addresses[::2] == addresses[1::2]
        columns.append(
            (framework.name, "yes" if equal else "[red]no[/]", *(f"{a:#x}" for a in addresses))
        )
    rows = list(zip(labels, *columns, strict=True))
    for heading in rows[0]:
        table.add_column(heading)
    for row in rows[1:]:
        table.add_row(*row)
    console.print(table)
    console.print("no copies" if good else "[red]something was copied, or is wrong[/]")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
