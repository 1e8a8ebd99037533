"""torch_xla's profiler on XPU: our devices' plane is in what it writes."""

from __future__ import annotations

from pathlib import Path

import torch
import torch_xla
import torch_xla.debug.profiler as xp


def test_a_trace_holds_the_device(tmp_path: Path) -> None:
    x = torch.ones(64, 64, device=torch_xla.device())
    torch_xla.sync()
    xp.start_trace(str(tmp_path))
    for _ in range(2):
        y = torch.tanh(x @ x).sum()
        torch_xla.sync()
        y.item()
    xp.stop_trace()
    (file,) = tmp_path.glob("plugins/profile/*/*.xplane.pb")
    # No reader of XSpace comes with torch: names, texts and categories stand in it as they are.
    data = file.read_bytes()
    for text in (
        b"/device:CUSTOM:XPU:0",
        b"XLA Modules",
        b"XLA Ops",
        b"f32[64,64]",
        b"hlo_category",
    ):
        assert text in data
