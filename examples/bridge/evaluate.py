"""The third stage, in PyTorch: the same network as a module, which counts what it gets right."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812 - its name everywhere
from torch import nn


class Network(nn.Module):
    """f32[n,1,16,16] -> f32[n,10]"""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, stride=2)
        self.conv2 = nn.Conv2d(16, 32, 3, stride=2)
        self.dense = nn.Linear(32 * 4 * 4, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # Padding as XLA's "SAME" has it for an even size and a stride of 2: one row below, one column to the right.
        for convolution in (self.conv1, self.conv2):
            x = F.relu(convolution(F.pad(x, (0, 1, 0, 1))))
        return self.dense(x.flatten(1))


@torch.no_grad()
def accuracy(
    network: Network, weights: dict[str, torch.Tensor], images: torch.Tensor, labels: torch.Tensor
) -> float:
    """The part of ``labels`` that the network gets right with ``weights``, all on one device."""
    logits = torch.func.functional_call(network, weights, images)
    return (logits.argmax(1) == labels).float().mean().item()
