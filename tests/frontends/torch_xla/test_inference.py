"""Models in ``torch.inference_mode``, whose weights come from outside of it, and tensors that go in and out of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from torch import nn

# Sums of up to 64 products of numbers below 4, in another order.
TOLERANCE = {"rtol": 1e-5, "atol": 1e-5}

MODULES: dict[str, tuple[Callable[[], nn.Module], torch.Tensor]] = {
    "linear": (lambda: nn.Linear(8, 4), torch.randn(2, 3, 8)),
    "convolution": (lambda: nn.Conv1d(3, 4, 2), torch.randn(2, 3, 8)),
    "images": (
        lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten()),
        torch.randn(2, 3, 5, 6),
    ),
    "lstm": (lambda: nn.LSTM(8, 6, 2, batch_first=True), torch.randn(2, 3, 8)),
    "attention": (lambda: OfItself(nn.MultiheadAttention(8, 2)), torch.randn(2, 3, 8)),
    "encoder": (lambda: nn.TransformerEncoderLayer(8, 2).eval(), torch.randn(2, 3, 8)),
    "layer_norm": (lambda: nn.LayerNorm(8), torch.randn(2, 3, 8)),
    "group_norm": (lambda: nn.GroupNorm(3, 3), torch.randn(2, 3, 8)),
    "instance_norm": (lambda: nn.InstanceNorm1d(3, affine=True), torch.randn(2, 3, 8)),
    "prelu": (lambda: nn.PReLU(3), torch.randn(2, 3, 8)),
    "embedding": (lambda: nn.Embedding(5, 3), torch.tensor([[1, 2], [4, 0]])),
    "embedding_bag": (lambda: nn.EmbeddingBag(5, 3), torch.tensor([[1, 2], [4, 0]])),
}


class OfItself(nn.Module):
    def __init__(self, attention: nn.Module) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x)[0]


@pytest.mark.parametrize("made_inside", [False, True])
@pytest.mark.parametrize("name", MODULES)
def test_modules(name: str, made_inside: bool) -> None:
    make, x = MODULES[name]
    torch.manual_seed(0)
    module = make()
    found = []
    for device in ("xla", "cpu"):
        on_device = copy.deepcopy(module).to(device)
        operand = x.to(device)
        with torch.inference_mode():
            result = on_device(operand.clone() if made_inside else operand)
        first = result[0] if isinstance(result, tuple) else result
        assert first.is_inference()
        found.append(first.cpu())
    torch.testing.assert_close(*found, **TOLERANCE)


def test_a_module_is_made_moved_and_loaded_inside() -> None:
    module = nn.Linear(8, 4)
    x = torch.randn(2, 8)
    with torch.inference_mode():
        moved = copy.deepcopy(module).to("xla")
        made = nn.Linear(8, 4, device="xla")
        made.load_state_dict(module.state_dict())
        for on_device in (moved, made, copy.deepcopy(moved)):
            assert isinstance(on_device.weight, nn.Parameter)
            torch.testing.assert_close(on_device(x.to("xla")).cpu(), module(x), **TOLERANCE)


def test_a_decorated_function_and_a_compiled_one() -> None:
    torch.manual_seed(0)
    module, x = nn.Sequential(nn.Linear(8, 4), nn.Tanh()), torch.randn(3, 8)
    want = module(x).detach()
    module.to("xla")

    @torch.inference_mode()
    def infer(function: Callable[..., torch.Tensor]) -> torch.Tensor:
        return function(x.to("xla")).cpu()

    torch.testing.assert_close(infer(module), want, **TOLERANCE)
    compiled = torch.compile(module, backend="openxla")
    torch.testing.assert_close(infer(compiled), want, **TOLERANCE)


VIEWS: dict[str, Callable[[torch.Tensor], Any]] = {
    "t": lambda x: x.t(),
    "mT": lambda x: x.mT,
    "view": lambda x: x.view(-1),
    "slice": lambda x: x[1:, :2],
    "select": lambda x: x[1],
    "expand": lambda x: x.expand(2, 3, 4),
    "permute": lambda x: x.permute(1, 0),
    "unsqueeze": lambda x: x[None],
    "squeeze": lambda x: x[:1].squeeze(0),
    "diagonal": lambda x: x.diagonal(),
    "detach": lambda x: x.detach(),
    "chunk": lambda x: x.chunk(2, 1),
    "split": lambda x: x.split([1, 2]),
    "unbind": lambda x: x.unbind(),
    "alias": torch.ops.aten.alias.default,
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_of_tensors_from_outside(name: str) -> None:
    """They are ordinary tensors, as their base is, but for what ``detach`` returns: that is torch_xla's own. What is
    written into them reaches the base.
    """
    found = []
    for device in ("xla", "cpu"):
        x = torch.arange(12.0, device=device).reshape(3, 4).clone()
        with torch.inference_mode():
            views = VIEWS[name](x)
            views = [views] if isinstance(views, torch.Tensor) else list(views)
            kinds = [v.is_inference() for v in views]
            if name != "expand":
                views[0].mul_(-2)
        torch_xla.sync()
        found.append((kinds, x.tolist(), [v.tolist() for v in views], [v.is_leaf for v in views]))
        y = x.requires_grad_()
        (y * y).sum().backward()
        assert torch.equal(y.grad, 2 * y.detach())
    (on_xla, *values), (on_cpu, *wanted) = found
    assert on_xla == ([True] if name == "detach" else on_cpu)
    assert values == wanted


def test_a_cache_that_is_written_in_inference_mode() -> None:
    weight, cache = (torch.ones(4, 4).to("xla") for _ in range(2))
    for step in range(3):
        with torch.inference_mode():
            cache[step : step + 1] = (cache @ weight.T)[step] + step
            torch_xla.sync()
    assert cache.tolist() == [[4.0] * 4, [5.0] * 4, [6.0] * 4, [1.0] * 4]


def test_training_after_it() -> None:
    torch.manual_seed(0)
    module, x = nn.Linear(8, 4), torch.randn(3, 8)
    found = []
    for device in ("xla", "cpu"):
        on_device = copy.deepcopy(module).to(device)
        with torch.inference_mode():
            on_device(x.to(device))
        on_device(x.to(device)).square().sum().backward()
        found.append([p.grad.cpu() for p in on_device.parameters()])
    torch.testing.assert_close(*found, **TOLERANCE)


@pytest.mark.parametrize("device", ["xla", "cpu"])
def test_what_gradients_need_and_inference_mode_changed(device: str) -> None:
    weight = torch.ones(2, 2, device=device, requires_grad=True)
    loss = weight.square().sum()
    with torch.inference_mode():
        weight.t().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()
