"""torch.nn.GRU, which is torch_xla's own class after its import, takes what PyTorch's takes."""

from __future__ import annotations

import copy
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch
from torch import nn
from torch.nn.utils import rnn

TOLERANCE = {"rtol": 1e-5, "atol": 1e-6}
LENGTHS = torch.tensor([7, 5, 3, 2])


def module() -> nn.GRU:
    torch.manual_seed(0)
    return nn.GRU(5, 6, 2, batch_first=True)


def sequences(x: torch.Tensor) -> rnn.PackedSequence:
    return rnn.pack_padded_sequence(x, LENGTHS, batch_first=True)


def test_packed_sequences_and_tensors_on_the_cpu() -> None:
    made, x = module(), torch.randn(4, 7, 5)
    found = []
    for device in ("xla", "cpu"):
        on_device = copy.deepcopy(made).to(device)
        packed, last = on_device(sequences(x.to(device)))
        padded, _ = rnn.pad_packed_sequence(packed, batch_first=True)
        (padded.square().sum() + last.sin().sum()).backward()
        found.append([padded, last, *(p.grad for p in on_device.parameters())])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got.cpu(), want, **TOLERANCE)
    # The first sequence is as long as the array: each row but what is behind the others' ends is the same.
    whole, _ = made(x)
    torch.testing.assert_close(found[1][0][0], whole[0], **TOLERANCE)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_without_gradients(mode: Callable[[], AbstractContextManager[None]]) -> None:
    made, x = module(), torch.randn(4, 7, 5)
    on_device = copy.deepcopy(made).to("xla")
    with mode():
        for got, want in zip(on_device(x.to("xla")), made(x), strict=True):
            torch.testing.assert_close(got.cpu(), want, **TOLERANCE)
