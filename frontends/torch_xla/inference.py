"""Views of ordinary tensors in ``torch.inference_mode``, which torch_xla refuses: a model's weights are such tensors.

What is made in inference mode has no gradients and counts no changes, but a view of a tensor from outside shares that
tensor's counter. torch_xla's views are objects of PyTorch's functionalization, which are made as if they were new
tensors: PyTorch finds no counter there, and says "Cannot set version_counter for inference tensor". So ``nn.Linear``
raised, and any other layer that transposes or reshapes a weight. Here inference mode is off while such a view is made.
Views on PyTorch's other devices get what their base has, too.

The kernels are put in place when inference mode is entered for the first time: each view is recorded in 3 us more.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable
from typing import Any, Final

# The dispatch keys of views: PyTorch's own treatment of them, and below it torch_xla's.
_KEYS: Final = ("Functionalize", "XLA")
_lock = threading.Lock()
# Held, for what they register goes with them.
_libraries: list[Any] = []


def install() -> None:
    """Have :func:`_install_kernels` called when inference mode is entered, here and in compiled functions."""
    from torch.autograd import grad_mode

    mode: Any = grad_mode.inference_mode
    if hasattr(mode.__enter__, "__wrapped__"):
        return
    mode.__enter__ = _after_kernels(mode.__enter__)
    grad_mode._enter_inference_mode = _after_kernels(grad_mode._enter_inference_mode)


def _after_kernels(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def after_kernels(*arguments: Any) -> Any:
        if len(_libraries) < len(_KEYS):
            _install_kernels()
        return function(*arguments)

    return after_kernels


def _install_kernels() -> None:
    import torch

    with _lock, warnings.catch_warnings():
        # PyTorch says that a kernel is replaced.
        warnings.simplefilter("ignore")
        for key in _KEYS[len(_libraries) :]:
            library = torch.library.Library("aten", "IMPL", key)  # type: ignore[no-untyped-call]
            for name in torch._C._dispatch_get_registrations_for_dispatch_key(key):
                operation = _view(name)
                if operation is not None:
                    library.impl(  # type: ignore[no-untyped-call]
                        operation, _of_ordinary(operation, key), with_keyset=True
                    )
            _libraries.append(library)


def _view(name: str) -> Any:
    """PyTorch's operation of that name if its results are views of its first operand; else None.

    ``detach`` is left as it is. It works, and a parameter is made of what it returns, which must not have been seen by
    Python before.
    """
    import torch

    if not name.startswith("aten::") or name == "aten::detach":
        return None
    operation, _, overload = name.removeprefix("aten::").partition(".")
    found = getattr(getattr(torch.ops.aten, operation), overload or "default")
    arguments = found._schema.arguments
    alias = arguments[0].alias_info if arguments else None
    return found if alias is not None and not alias.is_write else None


def _of_ordinary(operation: Any, key: str) -> Callable[..., Any]:
    """The kernel of a view, which makes that of an ordinary tensor outside of inference mode."""
    import torch

    kernel = torch.library.get_kernel(operation, key).call_boxed
    is_inference_mode = torch.is_inference_mode_enabled

    def view(keys: Any, x: Any, *rest: Any, **options: Any) -> Any:
        if is_inference_mode() and not x.is_inference() and x.device.type == "xla":
            with torch._C._InferenceMode(False), torch.no_grad():
                return kernel(keys, x, *rest, **options)
        return kernel(keys, x, *rest, **options)

    return view
