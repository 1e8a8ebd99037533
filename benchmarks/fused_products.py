"""Products with what is before and behind them: a few rows by quantised weights, epilogues.

python -m benchmarks.fused_products rows                    1, 4 and 8 rows beside reading the weights' bytes
python -m benchmarks.fused_products rows --weights s8,bf16 --size 8192 --rows 1,2
python -m benchmarks.fused_products around                  dequantisation and epilogues beside the product alone
python -m benchmarks.fused_products --cpu x86-64-v3         kept to the instructions of another CPU
python -m benchmarks.fused_products --threads 1 --clock cpu of processor time, on machines that do other things too

The figures of a few rows are GB/s of weights, and the part of what their maximum, which reads the same bytes, reaches
in the same run. Those of larger products are milliseconds, and how many times as long as the product alone (with bf16
or f32 weights, as the program has it) the whole takes. All are of the fastest of several calls.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from benchmarks.products import Step, client, measure, restrict

ROWS: Final = "1,4,8"
# Stored weights, the type that the program computes in, and the neighbours along k that share a scale (0: none is
# applied, -1: one for each channel). Those with "zeros" share a zero point too, eight of which are in a word along n.
WEIGHTS: Final = {
    "f32": ("float32", "float32", 0),
    "bf16": ("bfloat16", "bfloat16", 0),
    "f16": ("float16", "float16", 0),
    "s8": ("int8", "float32", 0),
    "s8-channel": ("int8", "bfloat16", -1),
    "s8-group64": ("int8", "bfloat16", 64),
    "s4-group32": ("int4", "bfloat16", 32),
    "u4-words": ("uint32", "bfloat16", 64),
    "u4-zeros": ("uint32", "bfloat16", 128),
}
AROUND: Final = ((512, 1024, 1024), (1024, 1024, 1024))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("what", nargs="?", choices=("rows", "around"), default="rows")
    parser.add_argument("--weights", default=",".join(WEIGHTS))
    parser.add_argument("--rows", default=ROWS, help="how many are multiplied")
    parser.add_argument("--size", type=int, default=8192, help="weights are [size, size]")
    parser.add_argument("--cpu", default="host")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    options = parser.parse_args()
    if options.clock == "cpu" and options.threads != 1:
        parser.error("--clock cpu needs --threads 1")
    return options


class Compiled:
    """Programs of JAX functions, compiled by tripont for a CPU."""

    def __init__(self, cpu: str) -> None:
        self.cpu = cpu

    def step(self, function: Callable[..., Any], *values: Any) -> Step:
        import jax
        from tripont.core import _tripont
        from tripont.core.compiler.compile import compile_program

        text = jax.jit(function).lower(*values).as_text().encode()
        device = client().devices[0]  # (It says which CPU to behave as: before oneDNN is opened.)
        executable = _tripont.Executable.load(compile_program(text, "mlir", b"", {"cpu": self.cpu}))
        buffers = [_tripont.Buffer.from_array(v, device) for v in values]

        def step() -> None:
            for result in executable.execute(device, buffers):
                result.wait()

        return step


def array(dtype: str, dims: tuple[int, ...], seed: int) -> Any:
    import ml_dtypes
    import numpy as np

    random = np.random.default_rng(seed)
    if dtype == "uint32":
        return random.integers(0, 1 << 32, dims, dtype=np.uint32)
    if dtype in ("int8", "int4"):
        values = random.integers(-7, 8, dims, dtype=np.int8)
        return values.astype(ml_dtypes.int4) if dtype == "int4" else values
    type_ = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return random.standard_normal(dims, dtype=np.float32).astype(type_)


def product(turned: bool, group: int) -> Callable[..., Any]:
    """x by weights [k, n] or, ``turned``, [n, k], dequantised as a user writes it: words hold eight numbers along k."""
    import jax.numpy as jnp
    from jax import lax

    numbers = (((1,), (1 if turned else 0,)), ((), ()))

    def function(x: Any, w: Any, *scales: Any) -> Any:
        if w.dtype == jnp.uint32:
            shifts = jnp.arange(0, 32, 4, dtype=w.dtype)
            w = w[:, :, None] >> shifts if turned else w[:, None] >> shifts[:, None]
            w = ((w & 15).astype(jnp.int8) - 8).reshape(
                (-1, x.shape[1]) if turned else (x.shape[1], -1)
            )
        dims = w.shape
        if group > 0:
            axis = 1 if turned else 0
            w = w.reshape(*dims[:axis], dims[axis] // group, group, *dims[axis + 1 :])
        w = w.astype(x.dtype)
        if scales:
            (s,) = scales
            if turned:
                s = s[..., None]
            elif group > 0:
                s = s[:, None]
            w = w * s
        return lax.dot_general(x, w.reshape(dims), numbers)

    return function


def with_zeros(group: int) -> Callable[..., Any]:
    """x by words [k / 8, n] as GPTQ has them: codes less zero points in bytes, times scales [k / group, n]."""
    import jax.numpy as jnp

    def codes(words: Any, axis: int) -> Any:
        shifts = jnp.arange(0, 32, 4, dtype=words.dtype)
        shifts = shifts[:, None] if axis == 0 else shifts
        return (jnp.expand_dims(words, axis + 1) >> shifts & 15).astype(jnp.int8)

    def function(x: Any, w: Any, s: Any, zeros: Any) -> Any:
        n = w.shape[1]
        z = codes(zeros, 1).reshape(-1, 1, n) + 1
        w = (codes(w, 0).reshape(-1, group, n) - z).astype(x.dtype) * s[:, None]
        return x @ w.reshape(-1, n)

    return function


def scales_of(dtype: str, n: int, k: int, turned: bool, group: int) -> list[Any]:
    if group == 0:
        return []
    if group < 0:
        return [array(dtype, (n,), 2)]
    return [array(dtype, (n, k // group) if turned else (k // group, n), 2)]


def rows(options: argparse.Namespace, compiled: Compiled, clock: Callable[[], float]) -> None:
    import numpy as np

    size = options.size
    counts = [int(m) for m in options.rows.split(",")]
    for name in options.weights.split(","):
        stored, given, group = WEIGHTS[name]
        zeros = name.endswith("-zeros")
        for turned in (False,) if zeros else (False, True):
            packed = size // 8 if stored == "uint32" else size
            weights = array(stored, (size, packed) if turned else (packed, size), 1)
            words = np.frombuffer(weights.tobytes(), np.int32)
            steps = {"read": compiled.step(lambda v: v.max(), words)}
            more = scales_of(given, size, size, turned, group)
            function = product(turned, group)
            if zeros:
                function = with_zeros(group)
                more.append(array(stored, (size // group, size // 8), 3))
            for m in counts:
                x = array(given, (m, size), 0)
                steps[str(m)] = compiled.step(function, x, weights, *more)
            best = measure(steps, clock)
            rate = {key: weights.nbytes / t / 1e9 for key, t in best.items()}
            figures = "  ".join(
                f"{m} rows {rate[str(m)]:5.1f} ({rate[str(m)] / rate['read']:.2f})" for m in counts
            )
            layout = "[n, k]" if turned else "[k, n]"
            print(f"{name:11} {layout}  reading {rate['read']:5.1f} GB/s  {figures}", flush=True)


def around(compiled: Compiled, clock: Callable[[], float]) -> None:
    import jax

    for m, n, k in AROUND:
        for dtype in ("float32", "bfloat16"):
            x, w, bias = (array(dtype, d, s) for s, d in enumerate(((m, k), (k, n), (n,))))
            residual = array(dtype, (m, n), 3)
            w8 = array("int8", (k, n), 1)
            steps = {
                "alone": compiled.step(lambda x, w: x @ w, x, w),
                "bias, relu": compiled.step(lambda x, w, b: jax.nn.relu(x @ w + b), x, w, bias),
                "silu": compiled.step(lambda x, w: jax.nn.silu(x @ w), x, w),
                "bias, gelu, residual": compiled.step(
                    lambda x, w, b, r: r + jax.nn.gelu(x @ w + b), x, w, bias, residual
                ),
                "s8 by channel": compiled.step(product(False, -1), x, w8, bias),
                "s8 by group": compiled.step(
                    product(False, 64), x, w8, *scales_of(dtype, n, k, False, 64)
                ),
                "s8, turned": compiled.step(product(True, -1), x, array("int8", (n, k), 1), bias),
            }
            best = measure(steps, clock)
            for name, t in best.items():
                print(
                    f"{dtype:9} {m:5} {n:5} {k:5}  {name:21} {1e3 * t:8.3f} ms  {t / best['alone']:.2f}",
                    flush=True,
                )


def main() -> int:
    options = arguments()
    restrict(options.cpu, options.threads)
    import jax

    jax.config.update("jax_platforms", "cpu")  # to write the programs
    clock = time.thread_time if options.clock == "cpu" else time.perf_counter
    compiled = Compiled(options.cpu)
    if options.what == "rows":
        rows(options, compiled, clock)
    else:
        around(compiled, clock)
    return 0


if __name__ == "__main__":
    sys.exit(main())
