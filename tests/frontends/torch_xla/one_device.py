"""What one device makes of the batch that several share in test_replicas.py and test_processes.py."""

from __future__ import annotations

import torch


def trained_model() -> torch.nn.Linear:
    """The model after three steps on the whole batch, by torch's CPU."""
    model = torch.nn.Linear(4, 2)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    batch = torch.linspace(-2, 2, 32).reshape(8, 4)
    for _ in range(3):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
    return model
