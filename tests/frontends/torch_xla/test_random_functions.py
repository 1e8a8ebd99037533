"""A few random functions of PyTorch; ``python -m tests.fuzz --only torch`` tries others."""

from __future__ import annotations

import pytest
import torch

from tests.fuzz import torch_functions


@pytest.mark.parametrize("seed", range(6))
def test_random_functions(seed: int) -> None:
    assert torch_functions.findings(seed) == []


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = torch.flip

    def wrong(x: torch.Tensor, dims: list[int]) -> torch.Tensor:
        return usual(x, dims) if x.device.type == "cpu" else x.clone()

    seed = 19  # its function flips, and the order stays in what it returns
    assert torch_functions.findings(seed) == []
    monkeypatch.setattr(torch, "flip", wrong)
    found = torch_functions.findings(seed)
    for way in ("recorded", "step by step", "read"):
        assert any(finding.startswith(f"{way}: ") for finding in found)
