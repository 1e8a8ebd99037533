"""Matrix products: generated ones, oneDNN's, NumPy's (OpenBLAS), PyTorch's and XLA:CPU's, in turns.

python -m benchmarks.products                             f32 and f64, square, tall and wide
python -m benchmarks.products s8 f32 --sizes 256,1024     element types, and [n, n] by [n, n]
python -m benchmarks.products f32 --shapes 64x2048x2048   rows x columns x contracted
python -m benchmarks.products --cpu x86-64-v3             all of them kept to the instructions of another CPU
python -m benchmarks.products --threads 1 --clock cpu     of processor time, on machines that do other things too
python -m benchmarks.products --json out.json

Figures are GFLOP/s (Gop/s of integers) of the fastest of several calls, and the ratio of the generated product (of the
chosen one, if that is left out) to the best of the others. "library" is oneDNN through the library call; "chosen" is
what the compiler takes by itself.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

Step = Callable[[], Any]
SECONDS: Final = 0.5  # of measuring, for each shape and each of the competitors
CLOCK_STEPS: Final = 20  # of a clock, which may be a coarse one, that a measurement takes at least
SQUARE: Final = (32, 64, 96, 128, 192, 256, 384, 512, 1024, 2048)
OTHERS: Final = (
    (4096, 64, 512),
    (64, 4096, 512),
    (128, 128, 8192),
    (1000, 1000, 1000),
    (16, 2048, 2048),
)
RESULTS: Final = {
    "s8": "s32",
    "u8": "s32",
    "s16": "s32",
    "s32": "s32",
    "bf16": "bf16",
    "f16": "f16",
}
# What keeps MKL, OpenBLAS, PyTorch, XLA:CPU and PyTorch's oneDNN to the instructions of a CPU; TRIPONT_CPU caps the
# other oneDNN.
CAPS: Final = {
    "x86-64-v2": ("SSE4_2", "Nehalem", "default", "SSE4_2", "SSE41"),
    "x86-64-v3": ("AVX2", "Haswell", "avx2", "AVX2", "AVX2"),
    "x86-64-v3+avxvnni": ("AVX2", "Haswell", "avx2", "AVX2", "AVX2_VNNI"),
    "x86-64-v4": ("AVX512", "SkylakeX", "avx512", "AVX512", "AVX512_CORE"),
    "cascadelake": ("AVX512", "SkylakeX", "avx512", "AVX512", "AVX512_CORE_VNNI"),
    "cooperlake": ("AVX512", "Cooperlake", "avx512", "AVX512", "AVX512_CORE_BF16"),
    "sapphirerapids": ("AVX512", "SapphireRapids", "avx512", "AVX512", "AVX512_CORE_FP16"),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "types",
        nargs="*",
        default=[],
        help="element types: f32, f64, s8, u8, s16, bf16, f16, c64 ...",
    )
    parser.add_argument("--sizes", default="", help="of square products, with commas between them")
    parser.add_argument(
        "--shapes", default="", help="rows x columns x contracted, with commas between them"
    )
    parser.add_argument(
        "--transposed", action="store_true", help="the right-hand side is [columns, contracted]"
    )
    parser.add_argument("--cpu", default="host")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument(
        "--without", default="", help="competitors to leave out, with commas between them"
    )
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="for each shape and competitor"
    )
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if options.clock == "cpu" and options.threads != 1:
        parser.error("--clock cpu needs --threads 1")
    return options


def restrict(cpu: str, threads: int) -> None:
    """Set the environment of the libraries, before they are loaded."""
    environment = os.environ
    if threads:
        names = (
            "TRIPONT_NUM_THREADS",
            "OPENBLAS_NUM_THREADS",
            "OMP_NUM_THREADS",
            "MKL_NUM_THREADS",
        )
        environment.update(dict.fromkeys(names, str(threads)))
        if threads == 1:
            environment["TRIPONT_INLINE_NS"] = "1000000000000"  # on the thread whose time is taken
            environment["XLA_FLAGS"] = (
                "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
            )
    if cpu != "host":
        environment["TRIPONT_CPU"] = cpu
    if cpu in CAPS:
        mkl, openblas, torch, xla, onednn = CAPS[cpu]
        environment["OPENBLAS_CORETYPE"] = openblas
        environment["ATEN_CPU_CAPABILITY"] = torch
        environment["MKL_ENABLE_INSTRUCTIONS"] = mkl
        environment["ONEDNN_MAX_CPU_ISA"] = onednn
        environment["XLA_FLAGS"] = environment.get("XLA_FLAGS", "") + f" --xla_cpu_max_isa={xla}"


class Products:
    """The competitors for products of one element type."""

    def __init__(
        self, dtype: str, cpu: str, transposed: bool, without: set[str], threads: int = 0
    ) -> None:
        self.dtype, self.cpu, self.transposed, self.without = dtype, cpu, transposed, without
        self.threads = threads or len(os.sched_getaffinity(0))
        self.result = RESULTS.get(dtype, dtype)

    def steps(self, m: int, n: int, k: int) -> dict[str, Step]:
        import numpy as np
        from tripont.core.compiler.ir import dtypes

        dtype = dtypes.from_name(self.dtype)
        random = np.random.default_rng(0)
        right = (n, k) if self.transposed else (k, n)
        if dtype.is_integer:
            values = [
                random.integers(-100 if dtype.is_signed else 0, 100, s) for s in ((m, k), right)
            ]
        else:
            values = [random.standard_normal(s) for s in ((m, k), right)]
        a, b = (v.astype(dtype.numpy) for v in values)
        found: dict[str, Step] = {}
        for name, make in (
            ("generated", lambda: self.ours(a, b, True)),
            ("library", lambda: self.ours(a, b, False)),
            ("chosen", lambda: self.ours(a, b, None)),
            ("numpy", lambda: self.numpy(a, b)),
            ("torch", lambda: self.torch(a, b)),
            ("xla", lambda: self.xla(a, b)),
        ):
            if name not in self.without:
                step = make()
                if step is not None:
                    found[name] = step
        return found

    def ours(self, a: Any, b: Any, generated: bool | None) -> Step | None:
        """Compiled by tripont: ``generated`` or by oneDNN, or, for None, as the compiler chooses."""
        from tripont.core import _tripont
        from tripont.core.compiler.compile import compile_module
        from tripont.core.compiler.formats import artifact
        from tripont.core.compiler.ir import dtypes, hlo
        from tripont.core.compiler.passes.library import gemm, product_costs

        types = dtypes.from_name(self.dtype), dtypes.from_name(self.result)
        parameters = [hlo.parameter(n, hlo.Shape(types[0], x.shape)) for n, x in enumerate((a, b))]
        columns = b.shape[0 if self.transposed else 1]
        numbers = hlo.DotDimensionNumbers((1,), (1 if self.transposed else 0,))
        dot = hlo.Instruction(
            "dot",
            hlo.Shape(types[1], (a.shape[0], columns)),
            parameters,
            {"dimension_numbers": numbers, "precision": ("DEFAULT", "DEFAULT")},
        )
        module = hlo.Module("product", hlo.Computation.from_root("main", parameters, dot))
        choice: contextlib.AbstractContextManager[Any] = contextlib.nullcontext()
        if generated is True:
            choice = mock.patch.object(product_costs, "prefers_generated", return_value=True)
        elif generated is False:
            choice = mock.patch.object(gemm, "form_of", return_value=None)
        with choice:
            compiled = compile_module(module, {"cpu": self.cpu, "threads": str(self.threads)})
        text = artifact.serialize(compiled)
        executable = _tripont.Executable.load(text)
        device = client().devices[0]
        buffers = [_tripont.Buffer.from_array(x, device) for x in (a, b)]
        called = "gemm" in executable.describe()["thunks"]
        if generated is False and not called:
            return None

        def step() -> None:
            (result,) = executable.execute(device, buffers)
            result.wait()

        return step

    def numpy(self, a: Any, b: Any) -> Step | None:
        if self.dtype not in ("f32", "f64", "c64", "c128"):
            return None
        import numpy as np

        right = b.T if self.transposed else b
        out = np.empty((a.shape[0], right.shape[1]), a.dtype)
        return lambda: np.matmul(a, right, out=out)

    def torch(self, a: Any, b: Any) -> Step | None:
        try:
            import torch
        except ImportError:
            return None
        if self.dtype == "s8":  # the product of bytes without saturation
            x, y = torch.from_numpy(a), torch.from_numpy(b)
            right = y.T if self.transposed else y
            try:
                torch._int_mm(x, right)
            except RuntimeError:
                return None
            return lambda: torch._int_mm(x, right)
        names = {
            "f32": "float32",
            "f64": "float64",
            "bf16": "bfloat16",
            "f16": "float16",
            "c64": "complex64",
        }
        if self.dtype not in names:
            return None
        dtype = getattr(torch, names[self.dtype])
        wide = "complex64" if self.dtype == "c64" else "float64"
        x, y = (torch.from_numpy(v.astype(wide)).to(dtype) for v in (a, b))
        right = y.T if self.transposed else y
        out = torch.empty((a.shape[0], right.shape[1]), dtype=dtype)
        return lambda: torch.matmul(x, right, out=out)

    def xla(self, a: Any, b: Any) -> Step | None:
        import jax
        from jax import lax

        jax.config.update("jax_enable_x64", True)
        cpu = jax.devices("cpu")[0]
        x, y = (jax.device_put(v, cpu) for v in (a, b))
        numbers = (((1,), (1 if self.transposed else 0,)), ((), ()))
        wide = {"s32": "int32", "bf16": "bfloat16", "f16": "float16"}.get(self.result)
        function = jax.jit(lambda x, y: lax.dot_general(x, y, numbers, preferred_element_type=wide))
        return lambda: function(x, y).block_until_ready()


_CLIENT: list[Any] = []


def client() -> Any:
    from tripont.core import _tripont

    if not _CLIENT:
        _CLIENT.append(_tripont.Client({"prestart_worker": False, "cache": False}))
    return _CLIENT[0]


def calls_each(step: Step, clock: Callable[[], float], least: float = 0.0) -> int:
    """Calls of ``step`` between two readings of ``clock``, so that they take ``least`` seconds and many of the steps in
    which it advances.
    """
    readings = {clock() for _ in range(100)}
    while len(readings) < 2:
        readings.add(clock())
    ordered = sorted(readings)
    least = max(least, CLOCK_STEPS * min(b - a for a, b in itertools.pairwise(ordered)))
    calls = 1
    while True:
        start = clock()
        for _ in range(calls):
            step()
        taken = clock() - start
        if taken >= least:
            return calls
        calls = max(2 * calls, math.ceil(calls * least / taken) if taken > 0.0 else 0)


def measure(
    steps: dict[str, Step],
    clock: Callable[[], float],
    seconds: float = SECONDS,
    least: float = 0.0,
) -> dict[str, float]:
    """Seconds of a call of each, the fastest found in ``seconds`` of calls for each, which are counted by ``least``
    seconds at a time.
    """
    best = dict.fromkeys(steps, float("inf"))
    for step in steps.values():
        step()
    calls = {name: calls_each(step, clock, least) for name, step in steps.items()}
    until = time.perf_counter() + seconds * len(steps)
    rounds = 0
    while time.perf_counter() < until or rounds < 3:
        for name, step in steps.items():
            for _ in range(3):
                start = clock()
                for _ in range(calls[name]):
                    step()
                taken = clock() - start
                if taken > 0.0:  # what a hypervisor stole is taken off, and may be all
                    best[name] = min(best[name], taken / calls[name])
        rounds += 1
    return best


def main() -> int:
    options = arguments()
    restrict(options.cpu, options.threads)
    sizes = [int(s) for s in options.sizes.split(",") if s]
    shapes = [tuple(int(d) for d in s.split("x")) for s in options.shapes.split(",") if s]
    shapes += [(s, s, s) for s in sizes]
    if not shapes:
        shapes = [*((s, s, s) for s in SQUARE), *OTHERS]
    clock = time.thread_time if options.clock == "cpu" else time.perf_counter
    rows = []
    for dtype in options.types or ("f32", "f64"):
        without = set(options.without.split(","))
        products = Products(dtype, options.cpu, options.transposed, without, options.threads)
        for m, n, k in shapes:
            best = measure(products.steps(m, n, k), clock, options.seconds)
            speed = {name: 2e-9 * m * n * k / t for name, t in best.items()}
            others = [v for name, v in speed.items() if name not in ("generated", "chosen")]
            ours = speed.get("generated", speed.get("chosen", float("nan")))
            ratio = ours / max(others, default=float("nan"))
            row = {
                "type": dtype,
                "m": m,
                "n": n,
                "k": k,
                "cpu": options.cpu,
                **speed,
                "ratio": ratio,
            }
            rows.append(row)
            figures = "  ".join(f"{name} {v:7.1f}" for name, v in speed.items())
            print(f"{dtype:5} {m:5} {n:5} {k:5}  {figures}  ratio {ratio:.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
