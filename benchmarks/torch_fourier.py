"""A training step of a Fourier neural operator in PyTorch: ``python -m benchmarks.torch_fourier [--steps 12]``.

Four layers of 32 channels that keep 12 x 12 frequencies, 8 images of 64 x 64, gradient descent: on PyTorch/XLA's device
and by eager PyTorch on the CPU. Told are the minima of a step's processor time and wall time, and the loss after the
last one.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

CHANNELS, FREQUENCIES, LAYERS, SIZE, BATCH = 32, 12, 4, 64, 8


def _network() -> Any:
    import torch
    from torch import nn

    class Spectral(nn.Module):
        """Products of the lowest frequencies, and back."""

        def __init__(self) -> None:
            super().__init__()
            shape = (CHANNELS, CHANNELS, FREQUENCIES, FREQUENCIES, 2)
            self.weight = nn.Parameter(torch.randn(shape) / CHANNELS)

        def forward(self, x: Any) -> Any:
            spectrum = torch.fft.rfft2(x)
            low = (..., slice(FREQUENCIES), slice(FREQUENCIES))
            result = torch.zeros_like(spectrum)
            weight = torch.view_as_complex(self.weight)
            result[low] = torch.einsum("bixy,ioxy->boxy", spectrum[low], weight)
            return torch.fft.irfft2(result, s=x.shape[-2:])

    class Operator(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Conv2d(1, CHANNELS, 1), nn.Conv2d(CHANNELS, 1, 1)
            self.spectral = nn.ModuleList(Spectral() for _ in range(LAYERS))
            self.beside = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 1) for _ in range(LAYERS))

        def forward(self, x: Any) -> Any:
            x = self.first(x)
            for spectral, beside in zip(self.spectral, self.beside, strict=True):
                x = nn.functional.gelu(spectral(x) + beside(x))
            return self.last(x)

    torch.manual_seed(0)
    return Operator()


def _measure(device: str, steps: int) -> str:
    import torch
    import torch_xla

    network = _network().to(device)
    x, y = (torch.randn(BATCH, 1, SIZE, SIZE).to(device) for _ in range(2))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-3)
    times = []
    for _ in range(steps):
        started = time.process_time(), time.perf_counter()
        optimizer.zero_grad()
        loss = ((network(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        if device == "xla":
            torch_xla.sync(wait=True)
        times.append((time.process_time() - started[0], time.perf_counter() - started[1]))
    processor, wall = (1e3 * min(part) for part in zip(*times, strict=True))
    return f"{device}: {processor:.1f} ms of the processor, {wall:.1f} ms; loss {loss.item():.6f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=12)
    steps = parser.parse_args().steps
    import tripont.torch_xla  # noqa: F401  # before torch_xla, which would choose a device

    for device in ("xla", "cpu"):
        print(_measure(device, steps), flush=True)


if __name__ == "__main__":
    main()
