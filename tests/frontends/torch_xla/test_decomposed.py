"""Operations that torch_xla alone would compute on the CPU: recorded, with their gradients."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch.nn import functional
from torch_xla.debug import metrics

from .compare import assert_as_on_the_cpu

INFINITY, NAN = float("inf"), float("nan")


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), requires_grad=True)


X, Y = numbers(2, 3, 6, 7), numbers(2, 3, 6, 7, seed=1)
PLACES = (numbers(2, 4, 5, 2).detach() * 0.7).requires_grad_()
SPECIAL = torch.tensor(
    [[3.0, 1, NAN, 2, 5], [4, INFINITY, -INFINITY, 2, 0], [NAN] * 5, [1, 1, 2, 2, INFINITY]]
)
VOLUME = numbers(2, 3, 4, 5, 6)
PLACES_IN_VOLUMES = (numbers(2, 4, 2, 3, 3, seed=1).detach() * 0.8).requires_grad_()
INDICES, OFFSETS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 3, 3, 6])
ROWS = torch.tensor(
    [
        [0, 1, 2, 3, 0],
        [1, 1, 2, 0, 3],
        [2, 0, 0, 1, 1],
        [0, 3, 1, 1, 2],
        [3, 2, 3, 0, 0],
        [1, 0, 3, 2, 2],
    ]
)


def edges(x: torch.Tensor) -> torch.Tensor:
    return torch.linspace(-1, 1, 5, device=x.device)


CASES: dict[str, tuple[Callable[..., torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "nearest-exact": (lambda x: functional.interpolate(x, (9, 4), mode="nearest-exact"), (X,)),
    "nearest-exact of one dimension": (
        lambda x: functional.interpolate(x, 5, mode="nearest-exact"),
        (X[0],),
    ),
    **{
        f"nearest to {size}": (
            lambda x, size=size: functional.interpolate(x[:, 1:].mT, size, mode="nearest"),
            (X,),
        )
        for size in ((14, 12), (9, 8), (3, 2), (7, 18))
    },
    **{
        f"{mode} by {factors}": (
            lambda x, mode=mode, factors=factors: functional.interpolate(
                x[:, 1:].mT, scale_factor=factors, mode=mode
            ),
            (X,),
        )
        for mode in ("nearest", "bilinear")
        for factors in ((2, 1.7), (0.6, 1.3), (2, 2))
    },
    **{
        f"bilinear to {size}{', corners' * corners}": (
            lambda x, size=size, corners=corners: functional.interpolate(
                x[:, 1:].mT, size, mode="bilinear", align_corners=corners
            ),
            (X,),
        )
        for size in ((14, 12), (9, 8), (3, 2), (7, 18), (1, 1))
        for corners in (False, True)
    },
    **{
        f"means over {divisor}{', up to the end' * ceil}": (
            lambda x, divisor=divisor, ceil=ceil: functional.avg_pool2d(
                x, 3, 2, 1, ceil, False, divisor
            ),
            (X,),
        )
        for divisor in (1, 7)
        for ceil in (False, True)
    },
    "means of volumes over a divisor": (
        lambda x: functional.avg_pool3d(x, (2, 3, 3), 2, (0, 1, 1), True, True, 5),
        (VOLUME,),
    ),
    **{
        f"largest of windows with gaps, {name}": (
            lambda x, options=options: functional.max_pool2d(x, **options).sin(),
            (X,),
        )
        for name, options in {
            "whose gradient had another shape": {"kernel_size": 3, "dilation": 2, "padding": 1},
            "whose gradient had the right shape": {"kernel_size": 2, "stride": 3, "dilation": 2},
            "up to the end": {
                "kernel_size": (2, 3),
                "stride": 2,
                "padding": (1, 0),
                "dilation": (2, 1),
                "ceil_mode": True,
            },
        }.items()
    },
    "largest and their places": (
        lambda x: sum(
            part.sin() for part in functional.max_pool2d(x, 2, 1, 0, 3, return_indices=True)
        ),
        (X,),
    ),
    "largest of equal numbers and NaN": (
        lambda x: sum(
            part.sin() for part in functional.max_pool1d(x, 2, 1, 1, 2, return_indices=True)
        ),
        (SPECIAL,),
    ),
    "largest of integers": (
        lambda x: functional.max_pool2d(x, 2, 1, 1, 2),
        (torch.arange(60).reshape(3, 4, 5) % 7,),
    ),
    "largest in volumes": (
        lambda x: functional.max_pool3d(x, (2, 3, 1), 2, (1, 1, 0), (2, 2, 1)).sin(),
        (VOLUME,),
    ),
    "weight norm": (lambda v, g: torch._weight_norm(v, g[:, :1, :1, :1], 0).sin(), (X, Y)),
    **{
        f"running sums of {dtype}": (
            lambda x: x.cumsum(0) + torch.cumsum(x, -1, dtype=torch.float32),
            (torch.arange(60).reshape(5, 12).to(dtype),),
        )
        for dtype in (torch.bool, torch.int8, torch.int32, torch.int64)
    },
    "sum of a number": (lambda x: x.sum(0) + x.sum(-1, dtype=torch.float64), (numbers(),)),
    "linear": (lambda x: functional.interpolate(x, 11, mode="linear"), (X[0],)),
    **{
        f"{mode} of one dimension by {factor}": (
            lambda x, mode=mode, factor=factor: functional.interpolate(
                x[:, :, 1:].mT, scale_factor=factor, mode=mode
            ),
            (X[0],),
        )
        for mode in ("nearest", "linear")
        for factor in (1.7, 3, 0.6)
    },
    **{
        f"{mode} of volumes by {factors}": (
            lambda x, mode=mode, factors=factors: functional.interpolate(
                x[:, :, 1:].mT, scale_factor=factors, mode=mode
            ),
            (VOLUME,),
        )
        for mode in ("nearest", "trilinear")
        for factors in ((2, 1.7, 1), (0.6, 1, 1.3), (2, 2, 2))
    },
    "trilinear of corners": (
        lambda x: functional.interpolate(x, (3, 7, 9), mode="trilinear", align_corners=True),
        (VOLUME,),
    ),
    "adaptive means": (lambda x: functional.adaptive_avg_pool2d(x[:, 1:].mT, (4, 3)), (X,)),
    "adaptive means of one dimension": (lambda x: functional.adaptive_avg_pool1d(x, 4), (X[0],)),
    "parts of a dimension": (
        lambda x: x[:, 1:].mT.unfold(2, 3, 2) * x.unfold(-1, 1, 9).sum(),
        (X,),
    ),
    "parts that lie apart": (lambda x: x.unfold(3, 2, 5), (X,)),
    "parts of a number": (lambda x: x.unfold(0, 1, 1), (numbers(),)),
    "glu": (lambda x: functional.glu(x[:, :2].mT, 1) + functional.glu(x[:, 1:], 2).sum(), (X,)),
    "logit": (lambda x: x.sigmoid().logit() + x.sigmoid().logit(0.3), (X,)),
    "channel_shuffle": (
        lambda x: functional.channel_shuffle(x.reshape(2, 6, 3, 7), 3),
        (X,),
    ),
    "sums without NaN": (
        lambda x: x.nansum(0) + x.nansum() + x[:2].nanmean(1)[:, None],
        (SPECIAL[:, :4].where(SPECIAL[:, :4].abs() < 9, NAN).requires_grad_(),),
    ),
    "logaddexp2": (torch.logaddexp2, (X, Y)),
    "xlog1py": (
        lambda x, y: (
            torch.special.xlog1py(x, y.abs())
            + torch.special.xlog1py(2, x.abs())
            + torch.special.xlog1py(y, 0.5)
        ),
        (X, Y),
    ),
    "entr": (lambda x: torch.special.entr(x.abs()), (X,)),
    "logcumsumexp": (lambda x: x[:, 1:].mT.logcumsumexp(2), (X,)),
    "logcumsumexp of infinities": (
        lambda x: x.logcumsumexp(1),
        (torch.tensor([[-INFINITY, -INFINITY, 1, 2, -INFINITY], [0, INFINITY, 1, 3, 2]]),),
    ),
    "logcumsumexp of NaN": (lambda x: x.logcumsumexp(1), (SPECIAL,)),
    "logcumsumexp of large numbers": (
        lambda x: (1000 * x).logcumsumexp(0),
        (numbers(300, 4).detach(),),
    ),
    "cummin": (lambda x: x[:, 1:].mT.cummin(2)[0], (X,)),
    "cummin of NaN": (lambda x: x.cummin(1)[0], (SPECIAL,)),
    "places of running extrema of NaN": (
        lambda x: torch.stack([x.cummin(1)[1], x.cummax(1)[1]]),
        (SPECIAL,),
    ),
    "cummax of equal numbers": (
        lambda x: x.cummax(0)[0],
        (torch.tensor([1.0, 2, 2, 1, 2], requires_grad=True),),
    ),
    **{
        f"places of running minima of {dtype}": (
            lambda x: torch.stack([x.cummin(0)[0].long(), x.cummin(1)[1], x.cummax(0)[1]]),
            (torch.tensor([[3, 3, 1], [-128, 1, 1], [-128, 0, 1], [127, 0, 0]]).to(dtype),),
        )
        for dtype in (torch.bool, torch.int8, torch.int64)
    },
    "triangles": (
        lambda x: torch.cat(
            [
                torch.tril_indices(4, 5, -1, device=x.device),
                torch.triu_indices(4, 5, 1, device=x.device),
            ],
            1,
        ),
        (X,),
    ),
    **{
        f"rounding to {decimals}": (
            lambda x, decimals=decimals: torch.round(x, decimals=decimals),
            (torch.tensor([123.456, -0.0049, 0.5, 1250, INFINITY, -2.675]),),
        )
        for decimals in (0, 2, -2)
    },
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
        lambda x, g: functional.grid_sample(x, g, mode="nearest", align_corners=False),
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
    "addbmm": (
        lambda x, a, b: torch.addbmm(x, a, b, beta=0.3, alpha=2),
        (numbers(3, 5), numbers(2, 3, 4), numbers(2, 4, 5)),
    ),
    "vdot": (torch.vdot, (numbers(5), numbers(5, seed=1))),
    "median": (torch.median, (X,)),
    "median along a dimension": (lambda x: x[:, 1:].mT.median(1, True)[0], (X,)),
    "median of NaN": (torch.median, (torch.tensor([1, NAN, 0]),)),
    "medians of NaN and infinities": (lambda x: x.median(1)[0], (SPECIAL,)),
    "indices of medians": (lambda x: x.median(1)[1], (X.detach()[0, 0],)),
    "nanmedian": (torch.nanmedian, (SPECIAL,)),
    "nanmedians": (lambda x: x.nanmedian(1)[0], (SPECIAL,)),
    "median of integers": (
        lambda x: x.median(0)[0],
        (torch.tensor([[3, 1], [2, 9], [7, 1], [0, 0]]),),
    ),
    "median of nothing": (torch.median, (torch.zeros(0),)),
    "searchsorted": (lambda x: torch.searchsorted(edges(x), x), (SPECIAL,)),
    "searchsorted from the right": (
        lambda x: torch.searchsorted(edges(x), x, side="right"),
        (edges(SPECIAL),),
    ),
    "searchsorted in rows": (
        lambda x: torch.searchsorted(x.sort(-1)[0][:, 1:], x[:, :3], out_int32=True),
        (numbers(4, 9).detach(),),
    ),
    "searchsorted of a number": (lambda x: torch.searchsorted(edges(x), 0.3), (SPECIAL,)),
    "searchsorted in another order": (
        lambda x: torch.searchsorted(
            edges(x).flip(0), x, sorter=torch.arange(4, -1, -1, device=x.device)
        ),
        (SPECIAL,),
    ),
    "searchsorted in many": (
        lambda x: torch.searchsorted(torch.arange(1000, device=x.device) * 2, x),
        (torch.arange(-5, 2010, 7),),
    ),
    "searchsorted in nothing": (lambda x: torch.searchsorted(edges(x)[:0], x), (SPECIAL,)),
    "sums of embeddings": (
        lambda w: functional.embedding_bag(
            INDICES.to(w.device), w, OFFSETS.to(w.device), mode="sum"
        ),
        (numbers(10, 4),),
    ),
    "means of embeddings": (
        lambda w: functional.embedding_bag(INDICES.to(w.device).reshape(2, 4), w),
        (numbers(10, 4),),
    ),
    "weighted embeddings": (
        lambda w, s: functional.embedding_bag(
            INDICES.to(w.device), w, OFFSETS.to(w.device), mode="sum", per_sample_weights=s
        ),
        (numbers(10, 4), numbers(8)),
    ),
    "padded embeddings": (
        lambda w: functional.embedding_bag(
            INDICES.to(w.device), w, OFFSETS.to(w.device), padding_idx=4
        ),
        (numbers(10, 4),),
    ),
    "largest embeddings": (
        lambda w: functional.embedding_bag(
            INDICES.to(w.device), w, OFFSETS.to(w.device), mode="max"
        ),
        (numbers(10, 4),),
    ),
    "largest of padded, negative and no embeddings": (
        lambda w: functional.embedding_bag(
            INDICES.to(w.device),
            -w.exp(),
            torch.tensor([0, 3, 3, 8], device=w.device),
            mode="max",
            padding_idx=4,
            include_last_offset=True,
        ),
        (numbers(10, 4),),
    ),
    "largest of embeddings that are no numbers": (
        lambda w: functional.embedding_bag(
            torch.arange(6, device=w.device),
            w,
            torch.tensor([0, 2, 4], device=w.device),
            mode="max",
        ),
        (
            torch.tensor(
                [[torch.nan, 1], [2, torch.nan], [-torch.inf, 3], [torch.nan, 4], [5, 6], [5, 7]]
            ),
        ),
    ),
    "embeddings up to the last offset": (
        lambda w: functional.embedding_bag(
            INDICES.to(w.device),
            w,
            torch.tensor([0, 3, 3, 8], device=w.device),
            include_last_offset=True,
        ),
        (numbers(10, 4),),
    ),
    "embeddings without gradients": (
        lambda w: functional.embedding_bag(INDICES.to(w.device), w, OFFSETS.to(w.device)),
        (numbers(10, 4).detach(),),
    ),
    **{
        f"samples of volumes, {padding}{', corners' * corners}": (
            lambda v, g, padding=padding, corners=corners: functional.grid_sample(
                v, g, padding_mode=padding, align_corners=corners
            ),
            (VOLUME, PLACES_IN_VOLUMES),
        )
        for padding in ("zeros", "border", "reflection")
        for corners in (False, True)
    },
    "nearest samples of volumes": (
        lambda v, g: functional.grid_sample(v[:, :, 1:].mT, g, mode="nearest", align_corners=False),
        (VOLUME, PLACES_IN_VOLUMES),
    ),
    **{
        f"{mode} without aliasing to {size}{', corners' * corners}": (
            lambda x, mode=mode, size=size, corners=corners: functional.interpolate(
                x[:, 1:].mT, size, mode=mode, antialias=True, align_corners=corners
            ),
            (X,),
        )
        for mode in ("bilinear", "bicubic")
        for size in ((3, 2), (2, 9), (1, 1))
        for corners in (False, True)
    },
    "bilinear without aliasing by a factor": (
        lambda x: functional.interpolate(x, scale_factor=0.37, mode="bilinear", antialias=True),
        (X,),
    ),
    **{
        f"distances {p}": (
            lambda x, y, p=p: torch.cdist(x, y, p=p),
            (numbers(2, 4, 3), numbers(2, 5, 3, seed=1)),
        )
        for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INFINITY)
    },
    "distances of 0": (lambda x: torch.cdist(x, x.detach()), (numbers(4, 3),)),
    **{
        f"scatter_reduce, {reduce}{', alone' * alone}": (
            lambda x, y, reduce=reduce, alone=alone: x.scatter_reduce(
                0, ROWS.to(x.device), y, reduce, include_self=not alone
            ),
            (numbers(4, 5), numbers(6, 5, seed=1)),
        )
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for alone in (False, True)
    },
    **{
        f"scatter_reduce of integers, {reduce}{', alone' * alone}": (
            lambda x, y, reduce=reduce, alone=alone: x.scatter_reduce(
                -1, ROWS.T.to(x.device), y, reduce, include_self=not alone
            ),
            (torch.arange(20).reshape(5, 4) - 9, torch.arange(30).reshape(5, 6) - 14),
        )
        for reduce in ("mean", "amax", "amin")
        for alone in (False, True)
    },
    **{
        f"index_reduce, {reduce}{', alone' * alone}": (
            lambda x, y, reduce=reduce, alone=alone: x.T.index_reduce(
                1, ROWS[:, 0].to(x.device), y.T, reduce, include_self=not alone
            ),
            (numbers(4, 5), numbers(6, 5, seed=1)),
        )
        for reduce in ("prod", "mean", "amax", "amin")
        for alone in (False, True)
    },
    "scatter of a number by a long index": (
        lambda x: x.scatter(0, ROWS.to(x.device), 3.0),
        (numbers(4, 5),),
    ),
    "scatter by a long index": (
        lambda x, y: x.scatter(1, ROWS.T.to(x.device) * 0, torch.ones_like(y)),
        (numbers(5, 4), numbers(5, 6).detach()),
    ),
    "scatter to a number": (
        lambda x: x.scatter(0, torch.tensor([0], device=x.device), 3.0),
        (torch.tensor(1.0),),
    ),
    **{
        name: (getattr(torch, name), ((numbers(4, 5).detach().abs() + 0.1).requires_grad_(),))
        for name in ("lgamma", "digamma")
    },
    "lgamma of special numbers": (
        torch.lgamma,
        (torch.tensor([-0.5, -1.5, 0, -1, NAN, INFINITY]),),
    ),
    "lgamma of integers": (torch.lgamma, (torch.tensor([1, 2, 5]),)),
    "polygamma": (lambda x: torch.polygamma(2, x), (numbers(4).detach().abs() + 1,)),
    "incomplete gamma functions": (
        lambda a, x: torch.igamma(a, x) - 2 * torch.igammac(a, x[:1]),
        (
            numbers(4).detach().abs() + 0.1,
            (numbers(4, seed=1).detach().abs() + 0.1).requires_grad_(),
        ),
    ),
    "zeta": (lambda x: torch.special.zeta(x + 1.5, x), (numbers(4).detach().abs() + 0.1,)),
    "angle of real numbers": (torch.angle, (torch.tensor([1.0, -1, 0, -0.0, NAN]),)),
    "angle of complex numbers": (
        lambda x: torch.angle(torch.view_as_complex(x[:, 1:])),
        (numbers(3, 5, 2),),
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


def test_draws_without_replacement() -> None:
    """They are those of the CPU, whose seed they follow."""
    weights = torch.rand(5, 40, generator=torch.Generator().manual_seed(3))
    weights[:, 7] = 0
    found = []
    for device in ("xla", "cpu"):
        on_device = weights.to(device)
        metrics.clear_all()
        torch.manual_seed(4)
        drawn = [torch.multinomial(on_device, 6), torch.multinomial(on_device[0], 3)]
        drawn.append(
            torch.multinomial(on_device[1:, 2:], 4, generator=torch.Generator().manual_seed(1))
        )
        torch_xla.sync()
        if device == "xla":  # whether there is a distribution is read back
            on_cpu = {c for c in metrics.counter_names() if c.startswith("aten::")}
            assert on_cpu == {"aten::_local_scalar_dense"}
        found.append([x.tolist() for x in drawn])
    assert found[0] == found[1]
    with pytest.raises(RuntimeError, match="cannot sample"):
        torch.multinomial(weights.to("xla"), 41)


@pytest.mark.parametrize(
    ("weights", "says"),
    [
        ([-1.0, 2.0, 3.0], "element < 0"),
        ([float("nan"), 2.0, 3.0], "`nan` or element"),
        ([float("inf"), 2.0, 3.0], "either `inf`"),
        ([[1.0, 2.0], [0.0, 0.0]], "sum of probabilities <= 0"),
    ],
)
def test_weights_that_are_not_a_distribution(weights: list[Any], says: str) -> None:
    for device in ("cpu", "xla"):
        with pytest.raises(RuntimeError, match=says):
            torch.multinomial(torch.tensor(weights, device=device), 2)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (lambda x: torch.searchsorted(x[0], x.double()), "should have same dtype"),
        (lambda x: torch.searchsorted(x[:1], x), "N-1 dimensions"),
        (lambda x: torch.searchsorted(x[0], x, side="middle"), "'left' or 'right'"),
        (
            lambda x: x.index_reduce(0, torch.tensor([0, 1], device=x.device), x, "mean"),
            "index_reduce",
        ),
        (lambda x: torch.vdot(x[0], x[0, 1:]), "vectors of one size"),
        (lambda x: torch.polygamma(-1, x), "negative n"),
        (lambda x: x.unfold(1, 5, 1), "maximum size"),
        (lambda x: functional.max_pool2d(x[None], 2, 1, 2, 2), "at most half"),
        (lambda x: functional.max_pool2d(x[None], 3, 1, 0, 2), "do not fit"),
        (lambda x: torch.round(x.int(), decimals=2), "not implemented"),
    ],
)
def test_operands_that_do_not_fit(function, says: str) -> None:
    with pytest.raises(RuntimeError, match=says):
        function(torch.zeros(3, 4, device="xla"))


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
@pytest.mark.parametrize("name", CASES)
def test_values_without_gradients_are_recorded(name: str, mode: Callable[[], Any]) -> None:
    """Tensors of inference mode have no gradients' key, at which the decompositions stand for others."""
    function, given = CASES[name]
    metrics.clear_all()
    found = []
    for device in ("xla", "cpu"):
        with mode():
            found.append(function(*(x.detach().to(device) for x in given)))
            torch_xla.sync()
    assert not [counter for counter in metrics.counter_names() if counter.startswith("aten::")]
    got, want = found
    assert got.dtype == want.dtype
    scale = want.abs().nan_to_num(0, 0, 0).max().item() if want.is_floating_point() else 0
    torch.testing.assert_close(
        got.cpu(), want, rtol=2e-5, atol=2e-6 * scale, equal_nan=True, check_stride=False
    )


def test_parameters_in_inference_mode() -> None:
    """They were made before it, as a model's are, and have the key of gradients, which is off there."""
    x = X.detach().to("xla").requires_grad_()
    metrics.clear_all()
    with torch.inference_mode():
        got = functional.interpolate(x[:, 1:].mT, (9, 5), mode="bicubic").median()
    assert not [counter for counter in metrics.counter_names() if counter.startswith("aten::")]
    want = functional.interpolate(X[:, 1:].mT, (9, 5), mode="bicubic").median()
    torch.testing.assert_close(got.cpu(), want.detach(), rtol=2e-5, atol=2e-6)


def of_several(x: torch.Tensor) -> torch.Tensor:
    return x.median() + functional.avg_pool2d(x.exp2(), 2, divisor_override=3).sum()


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_programs_on_the_cpu_keep_the_operations(mode: Callable[[], Any]) -> None:
    """PyTorch traces them through the key of views, at which the decompositions of inference mode stand."""
    x = X.detach()
    with mode():
        assert torch.equal(torch.func.functionalize(of_several)(x), of_several(x))
        compiled = torch.compile(of_several, backend="aot_eager", fullgraph=True, dynamic=True)
        assert torch.equal(compiled(x), of_several(x))
    names: list[str] = []

    def kept(module: torch.fx.GraphModule, operands: Any) -> Any:
        names.extend(str(node.target) for node in module.graph.nodes)
        return make_boxed_func(module.forward)

    torch.compile(of_several, backend=aot_autograd(fw_compiler=kept))(x)
    assert {"aten.median.default", "aten.avg_pool2d.default", "aten.exp2.default"} <= set(names)


@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_samples_at_the_bounds(dimensions: int, padding: str, align_corners: bool) -> None:
    """A place that is at the bounds, or moved there, has no gradient."""
    one = torch.tensor([-1.0, 1, 0, 0.4, -1.4, 1.9])
    places = torch.stack(torch.meshgrid(*[one] * dimensions, indexing="ij"), -1)[None]
    image = numbers(1, 2, *(5, 4, 3)[:dimensions])

    def sample(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(x, at, "bilinear", padding, align_corners)

    assert_as_on_the_cpu(sample, image, places.clone().requires_grad_(), atol=1e-4)


@pytest.mark.parametrize("divisor", [2, -3])
def test_means_of_integers(divisor: int) -> None:
    x = torch.arange(-5, 55).reshape(1, 3, 4, 5)
    assert_as_on_the_cpu(
        lambda x: functional.avg_pool2d(x, (3, 2), 1, (1, 0), True, divisor_override=divisor), x
    )
    assert_as_on_the_cpu(lambda x: functional.avg_pool3d(x, 2, divisor_override=divisor), x)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_places_of_infinities(dimensions: int) -> None:
    """A window that is all -inf has a place, and one with NaN that of the last NaN."""
    x = SPECIAL.clone()
    x[2] = -INFINITY
    x = x.expand(1, *[1] * (dimensions - 1), 4, 5).contiguous()
    pool = {2: functional.max_pool2d, 3: functional.max_pool3d}[dimensions]
    size = (*[1] * (dimensions - 2), 2, 2)
    for k in (0, 1):
        assert_as_on_the_cpu(lambda x, k=k: pool(x, size, 1, return_indices=True)[k], x)


@pytest.mark.parametrize("rare", [0, -INFINITY, math.nan])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_places_in_large_windows(dimensions: int, rare: float) -> None:
    x = torch.arange(2 * 12 * 14).mul(7).remainder(23).reshape(1, 2, 12, 14).float()
    x[:, 0] = -INFINITY
    x[:, :, 8, 3:9] = rare
    x = x.reshape(1, 1, 2, 12, 14) if dimensions == 3 else x
    pool = {2: functional.max_pool2d, 3: functional.max_pool3d}[dimensions]
    size, padding = ((1, 9, 8), (0, 4, 1)) if dimensions == 3 else ((9, 8), (4, 1))
    for k in (0, 1):
        assert_as_on_the_cpu(
            lambda x, k=k: pool(x, size, 2, padding, 1, True, return_indices=True)[k], x
        )
    assert_as_on_the_cpu(
        lambda x: pool(x, size, 2, padding, return_indices=True)[0], x.requires_grad_()
    )


def test_functions_at_zero() -> None:
    assert_as_on_the_cpu(torch.digamma, torch.tensor([0.0, -0.0, 1, -1, 2.5]))
    assert_as_on_the_cpu(torch.digamma, torch.tensor([0, 1, -2]))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_gradients_of_short_floats(dtype: torch.dtype) -> None:
    x = numbers(3, 4).detach().to(dtype).requires_grad_()
    assert_as_on_the_cpu(lambda x: x.renorm(2, -1, 0.5), x, rtol=0.02, atol=0.02)


def test_products_of_integers() -> None:
    a = torch.arange(-20, 4, dtype=torch.int8).reshape(2, 3, 4)
    assert_as_on_the_cpu(torch.vdot, a[0, 0] * 8, a[0, 1] * 8)
    long = a.long()
    assert_as_on_the_cpu(
        lambda x, a, b: x.addbmm(a, b, beta=1.6, alpha=2.7), torch.ones(3, 3).long(), long, long.mT
    )


def test_no_places_to_search_in() -> None:
    none = torch.zeros(0, 0, dtype=torch.int64)
    assert_as_on_the_cpu(lambda x, y, s: torch.searchsorted(x, y, sorter=s), none, none, none)


@pytest.mark.parametrize("dimensions", [2, 3])
def test_nearest_samples_have_no_gradient_for_places(dimensions: int) -> None:
    x, places = (X, PLACES) if dimensions == 2 else (VOLUME, PLACES_IN_VOLUMES)
    image, at = x.detach().to("xla"), places.detach().to("xla").requires_grad_()
    functional.grid_sample(image, at, mode="nearest", align_corners=False).sum().backward()
    assert at.grad is not None
    assert torch.equal(at.grad.cpu(), torch.zeros_like(places))


@pytest.mark.parametrize("dimensions", [2, 3])
def test_gradients_of_functions_of_nearest_samples(dimensions: int) -> None:
    """``torch.func`` refuses functions with gradients of their own in a kernel."""
    x, places = (X, PLACES) if dimensions == 2 else (VOLUME, PLACES_IN_VOLUMES)

    def of_places(x: torch.Tensor, g: torch.Tensor) -> torch.Tensor:
        return functional.grid_sample(x, g, mode="nearest", align_corners=False).sum()

    found = torch.func.grad(of_places, (0, 1))
    for part in (0, 1):
        assert_as_on_the_cpu(lambda x, g, part=part: found(x, g)[part], x.detach(), places.detach())
    each = torch.func.vmap(lambda x, g: found(x[None], g[None])[1])
    assert_as_on_the_cpu(each, x.detach(), places.detach())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_gradient_of_sinc_near_zero(dtype):
    """It is not the quotient of two squares there, which are 0."""
    x = torch.tensor([0.0, 1e-40, 1e-30, -1e-25, 0.5], dtype=dtype, device="xla").requires_grad_()
    (gradient,) = torch.autograd.grad(torch.sinc(x).sum(), x)
    want = torch.tensor([0, 0, 0, 0, -4 / math.pi], dtype=dtype)
    torch.testing.assert_close(gradient.cpu(), want)
