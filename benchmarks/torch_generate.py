"""What ``generate()`` of transformers costs the first time: ``python -m benchmarks.torch_generate [--tokens 12]``.

A GPT-2 of two layers with random weights makes tokens one after another on PyTorch/XLA's device, with an empty cache of
programs. Told are the number of programs, the seconds that the user waits, and the CPU seconds, user and system, of
this process and of its compile workers, for the first and the second time, and whether the tokens are those of
PyTorch's CPU. Needs ``pip install transformers``.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path


def _children_seconds() -> float:
    """CPU seconds of the processes that this one has started and that still run, and of what they have waited for."""
    total = 0
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            if int(fields[1]) == os.getpid():
                total += sum(map(int, fields[11:15]))
    return total / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=12)
    tokens = parser.parse_args().tokens
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRIPONT_CACHE_DIR"] = folder
        _measure(tokens)


def _measure(tokens: int) -> None:
    import tripont.torch_xla  # noqa: F401, I001  # before torch_xla, which would choose a device
    import torch
    import torch_xla
    from torch_xla.debug import metrics
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    model = GPT2LMHeadModel(
        GPT2Config(
            n_layer=2, n_head=4, n_embd=32, vocab_size=100, n_positions=64, bos_token_id=0,
            eos_token_id=99, pad_token_id=0,
        )
    ).eval()  # fmt: skip
    prompt = torch.tensor([[1, 2, 3, 4, 5]])
    expected = model.generate(prompt, max_new_tokens=tokens, do_sample=False)
    model = model.to("xla")
    model.tie_weights()
    prompt = prompt.to("xla")
    torch_xla.sync()
    for run in ("first", "second"):
        metrics.clear_all()
        start, own, workers = time.perf_counter(), _own_seconds(), _children_seconds()
        made = model.generate(prompt, max_new_tokens=tokens, do_sample=False).cpu()
        waited = time.perf_counter() - start
        own, workers = _own_seconds() - own, _children_seconds() - workers
        programs = (metrics.metric_data("CompileTime") or [0])[0]
        same = "the CPU's tokens" if torch.equal(made, expected) else "OTHER TOKENS"
        print(
            f"{run}: {programs} programs, {waited:.2f} s of time, {own:.2f} s of this process, "
            f"{workers:.2f} s of workers; {same}",
            flush=True,
        )


if __name__ == "__main__":
    main()
