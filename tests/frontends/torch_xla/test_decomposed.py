"""Operations that torch_xla alone would compute on the CPU: recorded, with their gradients."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch_xla
from torch.nn import functional
from torch_xla.debug import metrics

INFINITY, NAN = float("inf"), float("nan")


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), requires_grad=True)


X, Y = numbers(2, 3, 6, 7), numbers(2, 3, 6, 7, seed=1)
PLACES = (numbers(2, 4, 5, 2).detach() * 0.7).requires_grad_()


def edges(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(-1, 1, 5, device=x.device)


CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "nearest-exact": (lambda x: functional.interpolate(x, (9, 4), mode="nearest-exact"), (X,)),
    "nearest-exact of one dimension": (
        lambda x: functional.interpolate(x, 5, mode="nearest-exact"),
        (X[0],),
    ),
    "linear": (lambda x: functional.interpolate(x, 11, mode="linear"), (X[0],)),
    "bicubic": (lambda x: functional.interpolate(x, (9, 5), mode="bicubic"), (X,)),
    "bicubic of corners": (
        lambda x: functional.interpolate(x, scale_factor=1.5, mode="bicubic", align_corners=True),
        (X,),
    ),
    "bicubic of a slice": (
        lambda x: functional.interpolate(x[:, 1:, :, 2:].mT, (7, 9), mode="bicubic"),
        (X,),
    ),
    "samples": (lambda x, g: functional.grid_sample(x, g, align_corners=False), (X, PLACES)),
    "samples of the border": (
        lambda x, g: functional.grid_sample(x, g, padding_mode="border", align_corners=True),
        (X, PLACES),
    ),
    "nearest samples": (
        lambda x, g: functional.grid_sample(x, g.detach(), mode="nearest", align_corners=False),
        (X, PLACES),
    ),
    "bicubic samples of a slice": (
        lambda x, g: functional.grid_sample(
            x[:, 1:, 1:].mT, g, mode="bicubic", align_corners=False
        ),
        (X, PLACES),
    ),
    "unfold": (lambda x: functional.unfold(x, (3, 2), padding=1, stride=2), (X,)),
    "unfold of a slice": (lambda x: functional.unfold(x[:, 1:, :, 2:].mT, 2), (X,)),
    "fold": (
        lambda x: functional.fold(x, (6, 7), (3, 2), padding=1, stride=2),
        (numbers(2, 18, 12),),
    ),
    "huber": (lambda x, y: functional.huber_loss(x, y, delta=0.7), (X, Y)),
    "huber of slices": (lambda x, y: functional.huber_loss(x[:, 1:].mT, y[:, :2].mT), (X, Y)),
    "soft margin": (lambda x: functional.soft_margin_loss(x, x.detach().sign()), (X,)),
    "multi margin": (
        lambda x: functional.multi_margin_loss(x, torch.tensor([0, 2, 1], device=x.device), p=2),
        (numbers(3, 4),),
    ),
    "cross": (lambda x, y: torch.linalg.cross(x, y, dim=1), (X, Y)),
    "logaddexp": (torch.logaddexp, (X, Y)),
    "logaddexp of infinities": (
        torch.logaddexp,
        (torch.tensor([-INFINITY, INFINITY, 1]), torch.tensor([-INFINITY, INFINITY, 2])),
    ),
    "dist": (torch.dist, (X, Y)),
    "renorm": (lambda x: torch.renorm(x, 2, 1, 0.8), (X,)),
    "addmv": (
        lambda a, b, c: torch.addmv(a, b, c, beta=0.5, alpha=2),
        (numbers(3), numbers(3, 4), numbers(4)),
    ),
    "addr": (
        lambda a, b, c: torch.addr(a, b, c, alpha=0.3),
        (numbers(3, 4), numbers(3), numbers(4)),
    ),
    "exp2": (torch.exp2, (X,)),
    "exp2 of integers": (torch.exp2, (torch.tensor([1, -5]),)),
    "sinc": (torch.sinc, (torch.tensor([0.0, 0.5, 1, -2.3], requires_grad=True),)),
    "sinc of integers": (torch.sinc, (torch.tensor([0, 3]),)),
    "fmax": (torch.fmax, (X, torch.tensor([1, NAN, 0, -1, 2, 0.5, -INFINITY]))),
    "fmin": (torch.fmin, (torch.tensor([NAN, NAN, 0.5]), torch.tensor([NAN, 1, INFINITY]))),
    "fmax of two dtypes": (
        torch.fmax,
        (torch.tensor([1.0, 2]), torch.tensor([2.0, 0], dtype=torch.float64)),
    ),
    "fmax of integers": (torch.fmax, (torch.tensor([1, 5]), torch.tensor([2, 3]))),
    "heaviside": (
        torch.heaviside,
        (torch.tensor([-1.0, 0, 2, 0]), torch.tensor([0.5, 0.5, 0.5, 0.3])),
    ),
    "bucketize": (lambda x: torch.bucketize(x, edges(x)), (X.detach(),)),
    "bucketize from the right": (
        lambda x: torch.bucketize(x, edges(x), right=True),
        (torch.linspace(-1, 1, 5),),
    ),
    "aminmax": (lambda x: torch.stack(list(torch.aminmax(x, dim=1))), (X.detach(),)),
    "isposinf": (torch.isposinf, (torch.tensor([INFINITY, -INFINITY, NAN, 1]),)),
    "isneginf": (torch.isneginf, (torch.tensor([INFINITY, -INFINITY, NAN, 1]),)),
}


def value_and_gradients(name: str, device: str) -> list[torch.Tensor]:
    function, given = CASES[name]
    operands = [x.detach().to(device).requires_grad_(x.requires_grad) for x in given]
    result = function(*operands)
    gradients: list[torch.Tensor] = []
    if result.requires_grad:
        weights = torch.arange(1, result.numel() + 1, device=device).reshape(result.shape) / 8
        result.backward(weights)
        gradients = [x.grad for x in operands if x.grad is not None]
    if device == "xla":
        torch_xla.sync()
    return [result.detach(), *gradients]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_recorded(name: str) -> None:
    """The gradients are weighted sums of up to some 300 terms in another order, of weights up to 32."""
    metrics.clear_all()
    on_device = value_and_gradients(name, "xla")
    assert not [counter for counter in metrics.counter_names() if counter.startswith("aten::")]
    on_cpu = value_and_gradients(name, "cpu")
    assert len(on_device) == len(on_cpu)
    for got, want in zip(on_device, on_cpu, strict=True):
        scale = want.abs().nan_to_num(0, 0, 0).max().item() if want.is_floating_point() else 0
        torch.testing.assert_close(
            got.cpu(), want, rtol=2e-5, atol=2e-6 * scale, equal_nan=True, check_stride=False
        )


def test_tensors_of_inference_mode() -> None:
    with torch.inference_mode():
        got = functional.huber_loss(X.detach().to("xla"), Y.detach().to("xla")).cpu()
    torch.testing.assert_close(got, functional.huber_loss(X, Y).detach())
