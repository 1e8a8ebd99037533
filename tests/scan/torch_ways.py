"""How PyTorch computes a call: on its CPU, and on PyTorch/XLA's device ``xla``.

``PJRT_DEVICE=CPU`` in the environment makes torch_xla's own CPU device of ``xla``, to tell whose a difference is.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

os.environ.setdefault("PJRT_DEVICE", "XPU")

import ml_dtypes
import numpy as np
import torch
import torch.utils._pytree as pytree
import torch_xla

from tests.scan.call import Call, outcome_of
from tests.scan.judge import Outcome

Function = Callable[..., Any]
GRADIENTS: Final = ("", "gradients", "second gradients")
_WIDE: Final = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}
# Types of which NumPy has another package's.
_OF_ML_DTYPES: Final = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e5m2: (torch.int8, ml_dtypes.float8_e5m2),
    torch.float8_e4m3fn: (torch.int8, ml_dtypes.float8_e4m3fn),
}

torch.set_num_threads(1)  # a child that is forked has no other threads


@functools.cache
def _start() -> None:
    """PyTorch counts the devices at its first backward pass, so they must be there before."""
    torch_xla.device()
    torch_xla._XLAC._xla_set_mat_mul_precision("highest")  # type: ignore[attr-defined]


def map_tensors(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    return pytree.tree_map(lambda x: function(x) if isinstance(x, torch.Tensor) else x, value)


def tensors(value: Any) -> list[torch.Tensor]:
    return [x for x in pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def _array(x: torch.Tensor) -> np.ndarray:
    if x._is_zerotensor():  # which has no elements in memory
        x = torch.zeros(x.shape, dtype=x.dtype)
    x = x.detach().resolve_conj().resolve_neg().contiguous()
    if x.dtype in _OF_ML_DTYPES:
        word, dtype = _OF_ML_DTYPES[x.dtype]
        return np.asarray(x.view(word).numpy()).view(dtype)
    return np.asarray(x.numpy())


def _arrays(value: Any) -> list[np.ndarray]:
    """The tensors of ``value`` as arrays; what the device has not computed yet is one program.

    The last ones come first: torch_xla takes two programs to be the same if a product, and then its two gradients,
    differ only in which factor comes first.
    """
    found = tensors(value)
    lazy = [x for x in reversed(found) if x.device.type == "xla"]
    if lazy:
        torch_xla._XLAC._xla_sync_multi(lazy, [])  # type: ignore[attr-defined]
    return [_array(x.cpu()) for x in found] + [
        np.asarray(x) for x in pytree.tree_leaves(value) if isinstance(x, (bool, int, float))
    ]


def _weighted(results: Sequence[torch.Tensor]) -> torch.Tensor:
    """A sum of all results, in which each element counts otherwise than its neighbours."""
    total = torch.zeros((), dtype=torch.float64)
    for x in results:
        weights = torch.linspace(0.5, 1.5, max(x.numel(), 1))[: x.numel()].reshape(x.shape)
        product = x * weights.to(x.device)
        part = (product.real + product.imag if x.is_complex() else product).double().sum()
        total = part + total.to(part.device)
    return total


def _with_gradients(results: Any, given: Any, times: int) -> list[Any]:
    """The results, the gradients of their sum, and for ``times`` of 2 the gradients of the sum of those."""
    inputs = [x for x in tensors(given) if x.requires_grad]
    found: list[Any] = [results]
    for time in range(times):
        outputs = [x for x in tensors(results) if x.requires_grad]
        if not outputs or not inputs:
            break
        results = torch.autograd.grad(
            _weighted(outputs), inputs, create_graph=time + 1 < times, allow_unused=True
        )
        found += [[x is None for x in results], results]
    return found


def compute(
    function: Function, arguments: Callable[[], Sequence[Any]], device: str, times: int, wide: bool
) -> Outcome:
    """What ``function`` gives of the arguments on a device, with gradients ``times`` times.

    Tensors among the arguments are copied to the device and ask for gradients where they do, and the device that an
    argument names is replaced.
    """

    def placed(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            moved = x.detach().clone().to(device)
            if wide:
                moved = moved.to(_WIDE.get(x.dtype, x.dtype))
            return moved.requires_grad_(x.requires_grad and times > 0)
        if isinstance(x, torch.dtype) and wide:
            return _WIDE.get(x, x)
        if x == "cpu" or (isinstance(x, torch.device) and x.type == "cpu"):
            return torch.device(device)
        return x

    def computed() -> list[np.ndarray]:
        _start()
        given = pytree.tree_map(placed, tuple(arguments()))
        torch.manual_seed(0)
        with torch.set_grad_enabled(times > 0):
            results = function(*given)
            if times:
                results = _with_gradients(results, given, times)
        return _arrays(results)

    return outcome_of(computed)


def call(
    name: str,
    function: Function,
    arguments: Callable[[], Sequence[Any]] | Sequence[Any],
    times: int = 0,
    each: bool = False,
    exact: bool = False,
) -> Call:
    """A call of ``function``. ``arguments`` may be a function that makes them. ``times``: 1 for gradients, 2 for second
    gradients too. ``exact``: nothing is computed in double precision, as what ``function`` does depends on the type.
    """
    make = arguments if callable(arguments) else lambda: arguments
    of = functools.partial(compute, function, make)
    return Call(
        name,
        lambda: of("cpu", times, False),
        {"recorded": lambda: of("xla", times, False)},
        None if exact else lambda: of("cpu", times, True),
        each=each,
    )
