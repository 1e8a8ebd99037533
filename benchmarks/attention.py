"""Attention against PyTorch's scaled_dot_product_attention on the CPU, in turns: forms by lengths.

    python -m benchmarks.attention [FORM ...] [--lengths 128,512,2048] [--threads N] [--clock wall|cpu]

Prints milliseconds of the fastest call of each, the ratio (above 1: tripont is faster), and the largest difference.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

FORMS = (
    *("plain", "causal", "local", "bias", "grouped", "decode", "bf16", "bf16-causal"),
    *("gradient", "gradient-causal", "bf16-gradient"),
)
HEADS, COLUMNS, WINDOW = 8, 64, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "forms", nargs="*", default=list(FORMS), metavar="FORM", help=" ".join(FORMS)
    )
    parser.add_argument("--lengths", default="128,512,2048")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    unknown = set(options.forms) - set(FORMS)
    if unknown:
        parser.error(f"unknown forms: {', '.join(sorted(unknown))}")
    os.environ["TRIPONT_NUM_THREADS"] = str(options.threads)
    os.environ.setdefault("TRIPONT_DEVICE", "host")
    import torch

    torch.set_num_threads(options.threads)
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    print(f"{'form':>12} {'length':>6} {'tripont':>9} {'torch':>9} {'ratio':>6} {'difference':>10}")
    for form in options.forms:
        for length in map(int, options.lengths.split(",")):
            ours, theirs, difference = measure(form, length, clock, options.repeats)
            print(
                f"{form:>12} {length:6} {ours * 1e3:9.3f} {theirs * 1e3:9.3f} {theirs / ours:6.2f} {difference:10.1e}",
                flush=True,
            )


def measure(
    form: str, length: int, clock: Callable[[], float], repeats: int
) -> tuple[float, float, float]:
    """Seconds of the fastest call of both, and the largest difference of their results."""
    import jax
    import numpy as np
    import torch

    batch = max(1, min(4, 2048 // length))
    queries = 1 if form == "decode" else length
    key_heads = HEADS // 4 if form in ("grouped", "decode") else HEADS
    dtype = "bfloat16" if form.startswith("bf16") else "float32"
    rng = np.random.default_rng(0)
    values = [
        rng.standard_normal((batch, n, heads, COLUMNS)).astype(np.float32)
        for n, heads in ((queries, HEADS), (length, key_heads), (length, key_heads))
    ]
    bias = rng.standard_normal((HEADS, queries, length)).astype(np.float32)
    settings: dict[str, Any] = {"is_causal": form.endswith("causal") or form == "grouped"}
    mask = None
    if form == "local":
        settings = {"local_window_size": (WINDOW, WINDOW)}
        distance = np.arange(queries)[:, None] - np.arange(length)
        mask = torch.from_numpy(np.abs(distance) <= WINDOW)
    if form == "bias":
        mask = torch.from_numpy(bias)

    def attend(q: Any, k: Any, v: Any, bias: Any) -> Any:
        given = {"bias": bias[None]} if form == "bias" else {}
        return jax.nn.dot_product_attention(q, k, v, **given, **settings)

    def differentiated(q: Any, k: Any, v: Any, slope: Any) -> Any:
        result, back = jax.vjp(lambda *x: attend(*x, None), q, k, v)
        return result, *back(slope)

    is_gradient = "gradient" in form
    slope = rng.standard_normal(values[0].shape).astype(np.float32)
    ours = jax.jit(differentiated if is_gradient else attend)
    xpu = jax.devices("xpu")[0]
    last = slope.astype(jax.numpy.dtype(dtype)) if is_gradient else bias
    operands = [*(x.astype(jax.numpy.dtype(dtype)) for x in values), last]
    arguments = [jax.device_put(x, xpu) for x in operands]
    theirs = [
        torch.from_numpy(x).transpose(1, 2).contiguous().to(getattr(torch, dtype)) for x in values
    ]

    their_slope = torch.from_numpy(slope).transpose(1, 2).contiguous().to(theirs[0].dtype)

    def reference() -> list[torch.Tensor]:
        for x in theirs:
            x.grad = None
            x.requires_grad_(is_gradient)
        result = torch.nn.functional.scaled_dot_product_attention(
            *theirs,
            attn_mask=mask,
            is_causal=settings.get("is_causal", False),
            enable_gqa=key_heads != HEADS,
        )
        if not is_gradient:
            return [result]
        result.backward(their_slope)
        return [result.detach(), *(x.grad for x in theirs)]

    got = ours(*arguments)
    got = [np.asarray(x, np.float32) for x in (got if is_gradient else [got])]
    want = [x.transpose(1, 2).float().numpy() for x in reference()]
    difference = max(float(np.abs(a - b).max()) for a, b in zip(got, want, strict=True))
    best = [float("inf")] * 2
    for _ in range(repeats):
        start = clock()
        jax.block_until_ready(ours(*arguments))
        middle = clock()
        reference()
        end = clock()
        best = [min(best[0], middle - start), min(best[1], end - middle)]
    return best[0], best[1], difference


if __name__ == "__main__":
    main()
