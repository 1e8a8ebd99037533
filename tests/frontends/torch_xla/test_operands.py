"""Operands that torch_xla records and refuses when they are computed, or that end the process: what PyTorch's CPU says.

Each operation of the table is called with each dtype that it does not take, on the device and on the CPU: both give
one result, or raise one error, and the device at the call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_xla
from torch.nn import functional
from torch_xla.debug import metrics
from tripont.frontends.torch_xla import operands

Function = Callable[[torch.Tensor], Any]

DTYPES = (torch.bool, torch.int64, torch.uint8, torch.bfloat16, torch.complex64, torch.float32)
aten = torch.ops.aten


def ones(x: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.ones(shape, dtype=x.dtype, device=x.device)


def places(x: torch.Tensor, *shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64, device=x.device)


def _unpooled(dimensions: int) -> Function:
    unpool = getattr(functional, f"max_unpool{dimensions}d")
    return lambda x: unpool(ones(x, 1, 1, *[2] * dimensions), places(x, 1, 1, *[2] * dimensions), 2)


def _pooled(dimensions: int, x: torch.Tensor) -> Any:
    return getattr(functional, f"max_pool{dimensions}d")(ones(x, 1, 1, *[4] * dimensions), 2)


def _pooled_with_places(dimensions: int, x: torch.Tensor) -> Any:
    pool = getattr(aten, f"max_pool{dimensions}d_with_indices")
    return pool(ones(x, 1, 1, *[4] * dimensions), [2] * dimensions)


def _pool_backward(dimensions: int, x: torch.Tensor) -> Any:
    gradient, image = (ones(x, 1, 1, *[n] * dimensions) for n in (2, 4))
    options = [[2] * dimensions, [2] * dimensions, [0] * dimensions, [1] * dimensions, False]
    backward = getattr(aten, f"max_pool{dimensions}d_with_indices_backward")
    return backward(gradient, image, *options, places(x, 1, 1, *[2] * dimensions))


# By the operation's name, where a call with the operand alone would not do.
CALLS: dict[str, Function] = {
    "_cholesky_solve_helper.default": lambda x: torch.cholesky_solve(x, x),
    "_fft_c2c.default": lambda x: aten._fft_c2c(x, [0], 0, True),
    "_fft_c2r.default": lambda x: aten._fft_c2r(x, [0], 0, 2),
    "_fft_r2c.default": lambda x: aten._fft_r2c(x, [0], 0, True),
    "_linalg_solve_ex.default": lambda x: torch.linalg.solve_ex(x, x),
    "_log_softmax.default": lambda x: torch.log_softmax(x, 1),
    "_log_softmax_backward_data.default": lambda x: aten._log_softmax_backward_data(
        x, x, 1, x.dtype
    ),
    "_softmax.default": lambda x: torch.softmax(x, 1),
    "_softmax_backward_data.default": lambda x: aten._softmax_backward_data(x, x, 1, x.dtype),
    "amax.default": lambda x: torch.amax(x, 0),
    "amin.default": lambda x: torch.amin(x, 0),
    "cummax.default": lambda x: torch.cummax(x, 0),
    "cummin.default": lambda x: torch.cummin(x, 0),
    "fmod.Scalar": lambda x: torch.fmod(x, 2.0),
    "fmod.Tensor": lambda x: torch.fmod(x, x + x),
    "linalg_householder_product.default": lambda x: torch.linalg.householder_product(x, x[0]),
    "linalg_lu_solve.default": lambda x: torch.linalg.lu_solve(x, places(x, 2).int() + 1, x),
    "linalg_solve_triangular.default": lambda x: torch.linalg.solve_triangular(x, x, upper=True),
    "max_pool2d.default": lambda x: _pooled(2, x),
    "max_pool2d_with_indices.default": lambda x: _pooled_with_places(2, x),
    "max_pool2d_with_indices_backward.default": lambda x: _pool_backward(2, x),
    "max_pool3d.default": lambda x: _pooled(3, x),
    "max_pool3d_with_indices.default": lambda x: _pooled_with_places(3, x),
    "max_pool3d_with_indices_backward.default": lambda x: _pool_backward(3, x),
    "max_unpool2d.default": _unpooled(2),
    "max_unpool3d.default": _unpooled(3),
    "normal.Tensor_Tensor": lambda x: torch.normal(x, x),
    "normal.Tensor_float": lambda x: torch.normal(x, 1.0),
    "normal.float_Tensor": lambda x: torch.normal(1.0, x),
    "normal_.default": torch.randn_like,
    "remainder.Scalar": lambda x: torch.remainder(x, 2.0),
    "remainder.Tensor": lambda x: torch.remainder(x, x + x),
    "triangular_solve.default": lambda x: torch.triangular_solve(x, x),
    "uniform_.default": torch.rand_like,
}
# Those whose conditions are not about dtypes.
OTHERS: dict[str, tuple[str, Function]] = {
    "no index": ("roll.default", lambda x: x[:0].roll(1, 0)),
    "an empty array, rolled along all": ("roll.default", lambda x: x[:0].roll(1)),
    "no result": ("adaptive_max_pool2d.default", lambda x: functional.adaptive_max_pool2d(x[None], 0)),
    "results for nothing": (
        "adaptive_max_pool2d.default",
        lambda x: functional.adaptive_max_pool2d(x[:0, None, None].expand(0, 1, 2, 2), 1),
    ),
    "another source": ("scatter.src", lambda x: x.scatter(0, places(x, 2, 2), x.double())),
    "a short index": ("scatter.src", lambda x: x.scatter(0, places(x, 2), x)),
    "a long source": ("scatter.src", lambda x: x.scatter(0, places(x, 2, 2), x[None])),
    "a short index for a number": ("scatter.value", lambda x: x.scatter(0, places(x, 2), 3.0)),
    "another addend": ("scatter_add.default", lambda x: x.scatter_add(0, places(x, 2, 2), x.double())),
    "a short index of addends": ("scatter_add.default", lambda x: x.scatter_add(0, places(x, 2), x)),
    "a vector's lower triangle": ("tril.default", lambda x: x[0].tril()),
    "a vector's upper triangle": ("triu.default", lambda x: x[0].triu()),
    "numbers in the place of matrices": (
        "triangular_solve.default",
        lambda x: torch.triangular_solve(x[0, 0], x[0, 0]),
    ),
    "numbers to solve a triangle for": (
        "linalg_solve_triangular.default",
        lambda x: torch.linalg.solve_triangular(x[0, 0], x[0, 0], upper=True),
    ),
    "the place of the largest of none": ("", lambda x: x[:0].argmax()),
    "the place of the smallest of no rows": ("", lambda x: x[:0].argmin(0)),
    "no places": ("", lambda x: x[:0].argmax(1)),
    "a complex divisor": ("remainder.Scalar", lambda x: torch.remainder(x, 2j)),
    "a complex quotient rounded": ("", lambda x: torch.div(x + 1j, x, rounding_mode="floor")),
    "a complex quotient cut": ("", lambda x: torch.div(x + 1j, x, rounding_mode="trunc")),
    "a complex floor": ("", lambda x: (x + 1j) // 2),
    "singular values of nothing": ("_linalg_svd.default", lambda x: torch.svd(ones(x, 0, 0).bfloat16())),
    "determinant of nothing": ("_linalg_det.default", lambda x: ones(x, 0, 0).bfloat16().det()),
    "loss of complex scores": (
        "_log_softmax.default",
        lambda x: functional.cross_entropy(x + 1j, places(x, 2)),
    ),
    "complex attention": (
        "_softmax.default",
        lambda x: functional.scaled_dot_product_attention(*[(x + 1j)[None]] * 3),
    ),
}  # fmt: skip


def _not_taken() -> list[tuple[str, torch.dtype]]:
    """The operations that are called here with other dtypes, each with each of those."""
    names = operands.taken().keys() - {name for name, _ in OTHERS.values()} | CALLS.keys()
    of = {dtype: torch.ones(2, 2, dtype=dtype) for dtype in DTYPES}
    return [
        (name, dtype)
        for name in sorted(names)
        for dtype, x in of.items()
        if not operands.taken()[name](x, x)
    ]


def _called(name: str) -> Function:
    packet, overload = name.split(".")
    return CALLS.get(name, getattr(getattr(aten, packet), overload))


def _outcome(function: Function, x: torch.Tensor) -> Any:
    """The results, which may be still to compute, or the error."""
    try:
        return function(x)
    except (RuntimeError, IndexError, NotImplementedError, ValueError) as error:
        return error


def _check(function: Function, x: torch.Tensor) -> None:
    want, got = _outcome(function, x), _outcome(function, x.to("xla"))
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert (type(got), str(got)) == (type(want), str(want))
    else:
        got = torch.utils._pytree.tree_map(torch.Tensor.cpu, got)
        torch.testing.assert_close(got, want, equal_nan=True)


def test_the_table_is_tested_whole():
    tested = {name for name, _ in (*_not_taken(), *OTHERS.values())}
    assert tested - {""} == operands.taken().keys()


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of triangular_solve
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        pytest.param(name, dtype, id=f"{name} of {str(dtype).removeprefix('torch.')}")
        for name, dtype in _not_taken()
    ],
)
def test_other_dtypes(name, dtype):
    _check(_called(name), torch.eye(2).to(dtype))


@pytest.mark.filterwarnings("ignore")  # PyTorch's, of triangular_solve
@pytest.mark.parametrize("name", OTHERS)
def test_other_operands(name):
    _check(OTHERS[name][1], torch.eye(2))


def test_a_refusal_computes_nothing_and_loses_nothing():
    x = torch.ones(3, device="xla")
    torch_xla.sync()
    y = x + 1
    before = metrics.counter_value("MarkStep"), metrics.metric_data("TransferFromDeviceTime")
    with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
        functional.gelu(x.long())
    after = metrics.counter_value("MarkStep"), metrics.metric_data("TransferFromDeviceTime")
    assert before == after
    assert y.tolist() == [2, 2, 2]


def test_integers_become_the_default_dtype():
    x = torch.tensor([1, 0], device="xla")
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.exp(x).dtype == torch.exp(x > 0).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
