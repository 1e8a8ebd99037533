"""PyTorch's table of operators and sample inputs (``op_db``) in every type, on ``xla`` beside PyTorch's CPU.

The first sample of each operator and type, and others from the middle and the end of its samples, go through as they
are. Of the first ordinary sample are made: one with special numbers, some without elements along a dimension, one
without dimensions, views with strides, transposed and expanded, a result written in place into a view and one into
``out=``, and gradients and second gradients; of operations of two tensors, ones whose second operand has another type,
is a number, or is a tensor of the CPU's without dimensions.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import torch

from tests.scan.call import Call
from tests.scan.torch_ways import call, map_tensors, tensors

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.testing._internal.opinfo.core import BinaryUfuncInfo, UnaryUfuncInfo

# Operators whose results are drawn or not written, or that no device of torch_xla has.
_WITHOUT: Final = (
    "alpha_dropout",
    "bernoulli",
    "cauchy",
    "complex32",
    "dropout",
    "empty",
    "exponential",
    "fractional_max_pool",
    "geometric",
    "jiterator",
    "lowrank",
    "multi_head_attention_forward",
    "multinomial",
    "normal",
    "rand",
    "resize_as_",
    "rrelu",
    "sparse",
    "uniform",
    "chalf",
    "_flash_attention",
    "_efficient_attention",
    "_scaled_mm",
)
_DTYPES: Final = (
    torch.float32,
    torch.int64,
    torch.bfloat16,
    torch.complex64,
    torch.bool,
    torch.int32,
    torch.float64,
    torch.uint8,
    torch.float16,
    torch.int8,
    torch.int16,
    torch.complex128,
)
_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 1e-40, 1e-6, 89.0, -104.0, 3e38)
_NOT_FINITE: Final = (float("inf"), float("-inf"), float("nan"))
_FEW: Final = 120  # samples of an operator at most that are looked at
_MANY: Final = 1 << 16  # elements of a sample at most

Sample = tuple[Any, ...]


@functools.lru_cache(maxsize=4)
def _samples(place: int, dtype: torch.dtype) -> list[Any]:
    operator: Any = op_db[place]
    torch.manual_seed(0)
    gradients = dtype in operator.supported_backward_dtypes("cpu") and operator.supports_autograd
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = operator.sample_inputs("cpu", dtype, requires_grad=gradients)
        few = list(itertools.islice(made, _FEW))
    return [
        s
        for s in few
        if sum(x.numel() for x in tensors(_parts(s))) < _MANY and not s.kwargs.get("dropout_p")
    ]


def _parts(sample: Any) -> Sample:
    return sample.input, tuple(sample.args), dict(sample.kwargs)


def _at(place: int, dtype: torch.dtype, part: float) -> Sample:
    samples = _samples(place, dtype)
    return _parts(samples[min(int(part * len(samples)), len(samples) - 1)])


def _ordinary(place: int, dtype: torch.dtype) -> Sample:
    """The first sample with elements and dimensions, or the first one."""
    samples = [_parts(s) for s in _samples(place, dtype)]

    def is_ordinary(sample: Sample) -> bool:
        found = tensors(sample)
        return bool(found) and all(x.dim() > 0 and x.numel() > 1 for x in found)

    return next(filter(is_ordinary, samples), samples[0])


def _changed(change: Callable[[torch.Tensor], torch.Tensor], sample: Sample) -> Sample:
    """The sample with other tensors, which ask for gradients where the first ones do."""

    def of(x: torch.Tensor) -> torch.Tensor:
        return change(x.detach()).detach().requires_grad_(x.requires_grad)

    made: Sample = map_tensors(of, sample)
    return made


def _special(dtype: torch.dtype, x: torch.Tensor) -> torch.Tensor:
    """The numbers of ``x`` behind zeros, infinities, NaN and the ends of its type, if it is of ``dtype``; no index."""
    if x.dtype != dtype or dtype == torch.bool:
        return x
    if x.is_complex():  # infinite ones are as different as the formulas for a product
        first = torch.complex(torch.tensor(_SPECIAL), torch.tensor(_SPECIAL[::-1]))
    elif x.is_floating_point():
        first = torch.tensor([*_SPECIAL, *_NOT_FINITE], dtype=torch.float64)
    else:
        ends = torch.iinfo(x.dtype)
        first = torch.tensor([0, 1, ends.max, ends.min, 7, ends.max - 1], dtype=x.dtype)
    flat = torch.cat([first.to(x.dtype), x.reshape(-1)])
    return flat[: max(x.numel(), 1)].reshape(x.shape) if x.numel() else x


def _emptied(x: torch.Tensor, size: int) -> torch.Tensor:
    return x[tuple(slice(0 if n == size else None) for n in x.shape)]


def _without_elements(place: int, dtype: torch.dtype, which: int) -> Sample:
    sample = _ordinary(place, dtype)
    sizes = list(dict.fromkeys(n for x in tensors(sample) for n in x.shape))
    if which >= len(sizes):
        return sample
    return _changed(lambda x: _emptied(x, sizes[which]), sample)


def _without_dimensions(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1)[:1].reshape(()) if x.numel() else x


# A view of a larger tensor with the numbers of ``x``; the last one has those of its first column.
_VIEWS: Final[dict[str, Callable[[torch.Tensor], torch.Tensor]]] = {
    "strided": lambda x: torch.stack([x, x, x], -1)[..., 1],
    "transposed": lambda x: x.transpose(0, -1).clone().transpose(0, -1) if x.dim() else x,
    "sliced": lambda x: torch.cat([x, x, x])[x.shape[0] : 2 * x.shape[0]] if x.dim() else x,
    "expanded": lambda x: x[..., :1].expand_as(x) if x.dim() else x,
}


def _plain(operator: Any) -> Callable[..., Any]:
    return lambda x, args, kwargs: operator.op(x, *args, **kwargs)


def _of_views(operator: Any, view: Callable[..., Any]) -> Callable[..., Any]:
    def function(x: Any, args: Any, kwargs: Any) -> Any:
        x, args, kwargs = map_tensors(view, (x, args, kwargs))
        return operator.op(x, *args, **kwargs)

    return function


def _with_other(operator: Any, change: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    """With another second operand, or a first one that is a number, and the second operand as it is."""

    def function(x: Any, args: Any, kwargs: Any) -> Any:
        y = args[0] if isinstance(args[0], torch.Tensor) else x
        return operator.op(x, change(y), *args[1:], **kwargs)

    return function


_OTHERS: Final[dict[str, Callable[[torch.Tensor], Any]]] = {
    "by float64": lambda y: y.real.double(),
    "by int32": lambda y: y.real.nan_to_num(1, 2, 3).clamp(1, 5).to(torch.int32),
    "by bool": lambda y: y.real > -1,
    "by a number": lambda y: y.real.reshape(-1)[0].item() if y.numel() else 2,
    "by a fraction": lambda y: 0.3,
    "by a tensor of the CPU": lambda y: torch.tensor(2.3),
    "by a whole tensor of the CPU": lambda y: torch.tensor(2),
}


def _in_place(operator: Any) -> Callable[..., Any]:
    """In place, in every second element of a tensor; the whole tensor is the result."""

    def function(x: Any, args: Any, kwargs: Any) -> Any:
        whole = torch.stack([x, x], -1)
        operator.inplace_variant(whole[..., 0], *args, **kwargs)
        return whole

    return function


def _with_out(operator: Any, is_strided: bool) -> Callable[..., Any]:
    """Into ``out=``, of the right shape, or into every second element of one tensor for each result."""

    def function(x: Any, args: Any, kwargs: Any) -> Any:
        shapes = operator.op(x, *args, **kwargs)
        if is_strided:
            whole = map_tensors(lambda y: torch.stack([y, y], -1).zero_(), shapes)
            out = map_tensors(lambda y: y[..., 0], whole)
        else:
            whole = out = map_tensors(torch.zeros_like, shapes)
        operator.op(x, *args, **kwargs, out=tuple(out) if isinstance(out, (list, tuple)) else out)
        return whole

    return function


def _calls_of(place: int, operator: Any, name: str, dtype: torch.dtype) -> Iterator[Call]:
    of = f"{name}, {str(dtype).removeprefix('torch.')}"
    plain, each = _plain(operator), isinstance(operator, (UnaryUfuncInfo, BinaryUfuncInfo))
    for part in (0.0, 0.5, 0.999):
        yield call(f"{of}, sample at {part}", plain, functools.partial(_at, place, dtype, part))
    ordinary = functools.partial(_ordinary, place, dtype)

    def changed(change: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], Sample]:
        return lambda: _changed(change, ordinary())

    special = functools.partial(_special, dtype)
    if each or dtype.is_floating_point:
        yield call(f"{of}, special", plain, changed(special), each=each)
    if dtype not in _DTYPES[:5]:
        return
    if dtype in operator.supported_backward_dtypes("cpu") and operator.supports_autograd:
        for part in (0.0, 0.25, 0.75):
            of_part = functools.partial(_at, place, dtype, part)
            yield call(f"{of}, gradients at {part}", plain, of_part, times=1)
        if each:
            yield call(f"{of}, special gradients", plain, changed(special), times=1, each=True)
        if operator.supports_gradgrad and dtype in (torch.float32, torch.complex64):
            yield call(f"{of}, second gradients", plain, ordinary, times=2)
    if dtype in (torch.complex64, torch.bool):
        return
    for which in (0, 1):
        empty = functools.partial(_without_elements, place, dtype, which)
        yield call(f"{of}, empty {which}", plain, empty, times=int(dtype == torch.float32))
    yield call(f"{of}, without dimensions", plain, changed(_without_dimensions))
    for view, make in _VIEWS.items():
        yield call(f"{of}, {view}", _of_views(operator, make), ordinary)
    if isinstance(operator, BinaryUfuncInfo):
        for other, make_other in _OTHERS.items():
            yield call(f"{of}, {other}", _with_other(operator, make_other), ordinary)
    if operator.inplace_variant is not None:
        yield call(f"{of}, in place", _in_place(operator), ordinary)
    if operator.supports_out:
        yield call(f"{of}, out", _with_out(operator, False), ordinary)
        yield call(f"{of}, strided out", _with_out(operator, True), ordinary)


def calls() -> Iterator[Call]:
    operator: Any
    for place, operator in enumerate(op_db):
        variant: Sequence[str] = [operator.variant_test_name] if operator.variant_test_name else []
        name = ".".join([operator.name, *variant])
        if any(word in name for word in _WITHOUT):
            continue
        for dtype in _DTYPES:
            if dtype in operator.supported_dtypes("cpu"):
                yield from _calls_of(place, operator, name, dtype)
