"""Functions of PyTorch, as users write them, on PyTorch/XLA's device beside PyTorch's CPU.

Each is recorded whole, computed step by step (a program for each operation), and with a number read back in its middle.
Numbers are whole and small enough that no sum of them is rounded, so results are equal bit for bit. Operations in which
torch_xla differs from the CPU on every device (docs/pytorch.md) are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Final

os.environ.setdefault("PJRT_DEVICE", "XPU")

import torch
import torch_xla

import tripont.torch_xla  # noqa: F401

_SHAPES: Final = [(3, 5), (7,), (2, 3, 4), (1, 9), (), (8, 16), (6, 6)]
_DTYPES: Final = [torch.float32, torch.int32, torch.int64, torch.float64, torch.bool]
_LIMIT: Final = 16
_MOST: Final = 600

Tensor = torch.Tensor
Step = Callable[[Tensor, list[Tensor]], Tensor]


def _number(x: Tensor) -> Tensor:
    return x.to(torch.int32) if x.dtype == torch.bool else x


def _small(x: Tensor) -> Tensor:
    """Whole numbers within bounds, whatever they were."""
    return x if x.dtype == torch.bool else torch.clamp(x, -_LIMIT, _LIMIT)


def _like(x: Tensor, others: list[Tensor]) -> Tensor:
    """Another value of this shape, or ``x``, in the dtype of ``x``."""
    same = [y for y in others if y.shape == x.shape]
    return same[-1].to(x.dtype) if same else x


def _steps(r: Random) -> list[Step]:
    """One of each kind, with what chance chooses in it chosen already, so that all ways do the same."""
    which, axis, amount = r.random(), r.random(), r.randint(1, 3)
    binary = r.choice([torch.add, torch.sub, torch.maximum, torch.minimum, torch.mul])
    compare = r.choice([torch.lt, torch.eq, torch.ge])
    reduce = r.choice([torch.sum, torch.amax, torch.amin])
    keep = r.choice([True, False])
    dtype = r.choice(_DTYPES)

    def at(x: Tensor) -> int:
        return int(axis * x.dim())

    def reduced(x: Tensor, _: list[Tensor]) -> Tensor:
        return reduce(_number(x), dim=at(x), keepdim=keep) if x.dim() else _number(x)

    def where_largest(x: Tensor, _: list[Tensor]) -> Tensor:
        # Of equal numbers the CPU names any: the sum of what is found tells whether it is a largest one.
        x = _number(x)
        return x.max(dim=at(x), keepdim=keep).values if x.dim() else x

    def moved(x: Tensor, _: list[Tensor]) -> Tensor:
        if not x.dim():
            return x
        return torch.roll(x, amount, at(x)) if which < 0.5 else torch.flip(x, [at(x)])

    def cut(x: Tensor, _: list[Tensor]) -> Tensor:
        if not x.dim() or x.shape[at(x)] < 2:
            return x
        place = [slice(None)] * x.dim()
        place[at(x)] = slice(1, None) if which < 0.5 else slice(None, None, amount)
        return x[tuple(place)]

    def written(x: Tensor, others: list[Tensor]) -> Tensor:
        """In place, into a view."""
        if not x.dim() or x.shape[0] < 2:
            return x
        y = x.clone()
        view = y[1:] if which < 0.5 else y.t()[:1] if y.dim() == 2 else y[:-1]
        view.copy_(x[:1].expand_as(view)) if view.shape[1:] == x.shape[1:] else view.fill_(amount)
        if which > 0.7 and y.dtype != torch.bool:
            y[0].add_(_like(y, others)[-1])
        return y

    def gathered(x: Tensor, _: list[Tensor]) -> Tensor:
        size = x.shape[at(x)] if x.dim() else 0
        if not size:
            return x
        index = torch.tensor([(amount * i) % size for i in range(amount + 1)], device=x.device)
        return torch.index_select(x, at(x), index)

    def scattered(x: Tensor, _: list[Tensor]) -> Tensor:
        if not x.dim() or x.shape[0] < 2 or x.dtype == torch.bool:
            return x
        index = torch.tensor([(amount * i) % x.shape[0] for i in range(2)], device=x.device)
        return x.index_add(0, index, x[:2]) if keep else x.index_copy(0, index[:1], x[-1:])

    def looped(x: Tensor, _: list[Tensor]) -> Tensor:
        x = _small(_number(x))
        for i in range(amount):
            x = _small(torch.flip(x, [0]) + i if x.dim() else x + i)
        return x

    def chosen(x: Tensor, others: list[Tensor]) -> Tensor:
        x = _number(x)
        return x + x if _small(x).sum() > 0 else _like(x, others)

    def sorted_(x: Tensor, _: list[Tensor]) -> Tensor:
        x = _number(x)
        return torch.sort(x, dim=at(x), descending=keep).values if x.dim() else x

    def best(x: Tensor, _: list[Tensor]) -> Tensor:
        x = _number(x)
        return torch.topk(x, min(amount, x.shape[-1]), largest=keep).values if x.dim() else x

    def product(x: Tensor, others: list[Tensor]) -> Tensor:
        if x.dim() != 2 or not x.dtype.is_floating_point:
            return x
        return x @ _like(x, others).t()

    def convolved(x: Tensor, _: list[Tensor]) -> Tensor:
        if x.dim() < 2 or not x.dtype.is_floating_point or x.shape[-1] < 3:
            return x
        signal = x.reshape(1, -1, x.shape[-1])
        kernel = signal[:, :, :2].expand(2, -1, -1)
        return torch.nn.functional.conv1d(signal, kernel, padding=amount - 1)

    def running(x: Tensor, _: list[Tensor]) -> Tensor:
        # torch_xla leaves 32-bit integers what they are, where PyTorch makes 64-bit ones of them.
        x = x if x.dtype.is_floating_point else x.to(torch.int64)
        return torch.cumsum(x, dim=at(x)) if x.dim() else x

    def joined(x: Tensor, others: list[Tensor]) -> Tensor:
        y = _like(x, others)
        return torch.cat([x, y], at(x)) if x.dim() else torch.stack([x, y])

    def padded(x: Tensor, _: list[Tensor]) -> Tensor:
        return torch.nn.functional.pad(_number(x), [amount - 1, 1]) if x.dim() else _number(x)

    def picked(x: Tensor, others: list[Tensor]) -> Tensor:
        x = _number(x)
        return torch.where(compare(x, _like(x, others)), x, x + 1)

    def differentiated(x: Tensor, _: list[Tensor]) -> Tensor:
        if not x.dtype.is_floating_point:
            return x
        y = x.detach().requires_grad_(True)
        (torch.relu(y) * y + torch.cumsum(y.reshape(-1), 0).sum()).sum().backward()
        return y.grad if y.grad is not None else x

    return [
        lambda x, o: binary(_number(x), _like(_number(x), o)),
        lambda x, _: x.to(dtype),
        lambda x, _: x.t() if x.dim() == 2 else x.movedim(0, -1) if x.dim() else x,
        lambda x, _: torch.isin(_number(x), torch.arange(amount, device=x.device)),
        lambda x, _: torch.masked_fill(_number(x), _number(x) > amount, -1),
        lambda x, _: torch.tril(_number(x)) if x.dim() == 2 else x,
        reduced, where_largest, moved, cut, written, gathered, scattered, looped, chosen, sorted_, best, product,
        convolved, running, joined, padded, picked, differentiated,
    ]  # fmt: skip


def _chain(
    steps: list[Step], arguments: list[Tensor], after: Callable[[int, Tensor], None]
) -> list[Tensor]:
    values = list(arguments)
    for number, step in enumerate(steps):
        made = _small(step(values[-1], values[:-1]))
        after(number, made)
        if made.numel() <= _MOST:
            values.append(made)
    return values[-2:]


def findings(seed: int) -> list[str]:
    """How results differ from the CPU's: none if all is well. Raises what the CPU raises."""
    r = Random(seed)
    shape = r.choice(_SHAPES)
    generator = torch.Generator().manual_seed(seed)
    arguments = []
    for dtype in (r.choice(_DTYPES) for _ in range(2)):
        high = 2 if dtype == torch.bool else _LIMIT
        arguments.append(torch.randint(0, high, shape, generator=generator).to(dtype))
    steps = [r.choice(_steps(r)) for _ in range(r.randint(2, 10))]
    middle = r.randrange(len(steps))

    def nothing(number: int, value: Tensor) -> None:
        pass

    def sync(number: int, value: Tensor) -> None:
        torch_xla.sync()

    def read(number: int, value: Tensor) -> None:
        if number == middle:
            value.sum().item()

    expected = _chain(steps, arguments, nothing)
    found = []
    for way, after in (("recorded", nothing), ("step by step", sync), ("read", read)):
        results = [y.cpu() for y in _chain(steps, [a.to("xla") for a in arguments], after)]
        found += [
            f"{way}: result {n}: {a!r} instead of {e!r}"
            for n, (a, e) in enumerate(zip(results, expected, strict=True))
            if a.dtype != e.dtype or a.shape != e.shape or not torch.equal(a, e)
        ]
    return found
