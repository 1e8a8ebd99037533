"""Calls of kernels from PyTorch: the operator ``tripont::kernel``, which PyTorch/XLA records as a custom call.

PyTorch/XLA takes custom calls for the same that differ in nothing but their configuration, and would run the program of
the first one for both. So the attributes stand in the target, which it does compare.
"""

from __future__ import annotations

import functools
from typing import Any, Final

import torch

from .kernel import KERNELS, Kernel
from .prototype import SignatureError

# Of the operator. PyTorch has no lists of lists here: the shapes follow one another, `ranks` says where each ends. It
# hands functions in Python numbers for a list of dtypes, so those go by name.
_SCHEMA: Final = (
    "(Tensor[] operands, str target, int[] dimensions, int[] ranks, str[] dtypes) -> Tensor[]"
)
_API_VERSION: Final = 4


def call(kernel: Kernel, operands: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """One tensor, or a tuple of them. Raises SignatureError for tensors that are on neither ``xla`` nor ``jax``."""
    given = [o for o in operands if isinstance(o, torch.Tensor)]
    if any(type(o).__module__.startswith("torchax") for o in given):
        from torchax import interop  # type: ignore[import-untyped]

        return interop.call_jax(functools.partial(kernel.jax, **attributes), *operands)
    if not given:
        raise SignatureError(
            f"kernel {kernel.name!r}: PyTorch/XLA calls kernels with one tensor or more as operands"
        )
    for parameter, operand in zip(kernel.prototype.operands, operands, strict=False):
        if isinstance(operand, torch.Tensor) and operand.device.type not in ("xla", "meta"):
            raise SignatureError(
                f"kernel {kernel.name!r}: operand {parameter.name!r} is on {operand.device}, kernels run on "
                "PyTorch/XLA's device: pass x.to('xla')"
            )
    tensors = [
        o
        if isinstance(o, torch.Tensor)
        else torch.as_tensor(o, dtype=getattr(torch, p.type.numpy or "float32")).to(given[0].device)
        for p, o in zip(kernel.prototype.operands, operands, strict=False)
    ]
    described = tuple((tuple(t.shape), str(t.dtype).removeprefix("torch.")) for t in tensors)
    values = torch.ops.tripont.kernel(
        tensors, *_plan(kernel.number, len(operands), described, attributes)
    )
    return values[0] if len(values) == 1 else tuple(values)


def _plan(
    number: int,
    given: int,
    operands: tuple[tuple[tuple[int, ...], str], ...],
    attributes: dict[str, Any],
) -> tuple[str, list[int], list[int], list[str]]:
    """The operator's arguments after the tensors, for the kernel of this number."""
    kernel = KERNELS[number]
    results = kernel.results(given, operands, attributes)
    return (
        kernel.target_with(attributes),
        [d for shape, _ in results for d in shape],
        [len(shape) for shape, _ in results],
        [dtype for _, dtype in results],
    )


_plan._dynamo_marked_constant = True  # type: ignore[attr-defined]  # torch.compile calls it, and does not read it


def _shapes(dimensions: list[int], ranks: list[int]) -> list[list[int]]:
    rest = iter(dimensions)
    return [[next(rest) for _ in range(rank)] for rank in ranks]


def _on_xla(
    operands: Any, target: str, dimensions: list[int], ranks: list[int], dtypes: list[str]
) -> Any:
    import _XLAC

    types = [getattr(torch, name) for name in dtypes]
    return _XLAC._xla_custom_call(
        operands, target, _shapes(dimensions, ranks), types, False, "", _API_VERSION, {}
    )


def _of_fakes(
    operands: Any, target: str, dimensions: list[int], ranks: list[int], dtypes: list[str]
) -> Any:
    return [
        operands[0].new_empty(shape, dtype=getattr(torch, name))
        for shape, name in zip(_shapes(dimensions, ranks), dtypes, strict=True)
    ]


def _backward(context: Any, *gradients: Any) -> Any:
    raise NotImplementedError(
        "kernels of tripont.kernels have no derivatives: call them in the forward of a "
        "torch.autograd.Function"
    )


# What is defined lives as long as this object.
_library: Final[Any] = torch.library.Library("tripont", "DEF")  # type: ignore[no-untyped-call]
_library.define("kernel" + _SCHEMA)
_library.impl("kernel", _on_xla, "XLA")
torch.library.register_fake("tripont::kernel", _of_fakes, lib=_library)
torch.library.register_autograd("tripont::kernel", _backward, lib=_library)
