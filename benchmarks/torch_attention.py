"""``scaled_dot_product_attention`` with all gradients, on PyTorch/XLA's device and on PyTorch's CPU, in turns.

``python -m benchmarks.torch_attention [--lengths 512,2048] [--repeats 6] [--threads 1]``. One batch, 8 heads of 64
columns, float32. Told are CPU milliseconds of all threads, the least of the calls: of the other on the CPU, of ours
with recording the operations and with reading the gradients back.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lengths", default="512,2048")
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: arguments.threads]))
    import tripont.torch_xla  # noqa: F401, I001  # before torch_xla, which would choose a device
    import torch

    torch.set_num_threads(arguments.threads)
    print(f"{'form':<8} {'length':>6} {'xla':>9} {'cpu':>9} {'cpu/xla':>8}")
    for causal in (False, True):
        for length in map(int, arguments.lengths.split(",")):
            torch.manual_seed(0)
            given = [torch.randn(1, 8, length, 64) for _ in range(3)]
            steps = {device: _step(given, device, causal) for device in ("xla", "cpu")}
            least = dict.fromkeys(steps, float("inf"))
            for _ in range(arguments.repeats):
                for device, step in steps.items():
                    start = time.process_time()
                    step()
                    least[device] = min(least[device], time.process_time() - start)
            ours, theirs = (1e3 * least[device] for device in ("xla", "cpu"))
            form = "causal" if causal else "plain"
            print(f"{form:<8} {length:>6} {ours:>9.2f} {theirs:>9.2f} {theirs / ours:>8.2f}")


def _step(given: list[Any], device: str, causal: bool) -> Callable[[], None]:
    """A call that computes attention and its gradients on ``device``, and reads these."""
    import torch
    from torch.nn.functional import scaled_dot_product_attention

    q, k, v = (x.clone().to(device).requires_grad_() for x in given)

    def step() -> None:
        result = scaled_dot_product_attention(q, k, v, is_causal=causal)
        for gradient in torch.autograd.grad((result * result).sum(), (q, k, v)):
            gradient.cpu()

    return step


if __name__ == "__main__":
    main()
