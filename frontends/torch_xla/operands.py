"""What operations take, and what becomes of other operands.

torch_xla records an operation of operands that XLA has none of (a sine of bool, factors of integers), and refuses it
when it is computed, and everything recorded with it; or it ends the process (a complex ``argmax``). PyTorch's CPU
computes it, or raises an error at the call. So do these operations here: an integer becomes the default float dtype
where PyTorch has it so (:data:`WIDENED`), and what torch_xla does not take (:func:`taken`) the CPU computes or refuses.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

Kernel = Callable[..., Any]
# Whether an operation takes these operands.
Condition = Callable[..., bool]

# Dtypes by a letter: floats, complex, integers, bool; those of LAPACK; those of real Fourier transforms.
_DTYPES: Final = {
    "f": ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"),
    "c": ("complex64", "complex128"),
    "i": ("int64", "int32", "int16", "int8", "uint8"),
    "b": ("bool",),
    "l": ("float64", "float32", "complex64", "complex128"),
    "s": ("float64", "float32"),
}


def _dtypes(letters: str) -> frozenset[Any]:
    import torch

    return frozenset(getattr(torch, name) for letter in letters for name in _DTYPES[letter])


def _of(letters: str) -> Condition:
    """The first operand has one of these dtypes."""
    dtypes = _dtypes(letters)
    return lambda x, *rest, **options: x.dtype in dtypes


def _both_of(letters: str) -> Condition:
    """So have both, or the second one is a number of Python's that is not complex."""
    dtypes = _dtypes(letters)

    def both(x: Any, y: Any, **options: Any) -> bool:
        if hasattr(y, "dtype"):
            return x.dtype in dtypes and y.dtype in dtypes
        return x.dtype in dtypes and type(y) is not complex

    return both


def _joined_in(letters: str) -> Condition:
    """The dtype of both is one of these."""
    dtypes = _dtypes(letters)

    def joined(x: Any, y: Any, **options: Any) -> bool:
        import torch

        return torch.result_type(x, y) in dtypes

    return joined


def _matrix(x: Any, *rest: Any, **options: Any) -> bool:
    return bool(x.dim() >= 2)


def _matrices(b: Any, a: Any, *rest: Any, **options: Any) -> bool:
    """Two matrices of LAPACK's dtypes: torch_xla ends the process over a number."""
    return _matrix(b) and _matrix(a) and b.dtype in _dtypes("l")


def _not_empty(x: Any, *rest: Any, **options: Any) -> bool:
    return bool(x.numel())


def _scattered(x: Any, dim: int, index: Any, source: Any, **options: Any) -> bool:
    """One number of dimensions, where a number has one, and a source of the dtype of ``x``, or a number."""
    dimensions = x.dim() or 1
    return (index.dim() or 1) == dimensions and (
        not hasattr(source, "dtype")
        or (source.dtype is x.dtype and (source.dim() or 1) == dimensions)
    )


def _adaptive_pool(x: Any, output_size: Any, **options: Any) -> bool:
    return bool(x.numel() and all(size > 0 for size in output_size) and not x.dtype.is_complex)


# Functions whose operand becomes the default float dtype where it has none.
_OF_NUMBERS: Final = (
    "acos acosh asin asinh atan atanh cos cosh exp expm1 isnan log log10 log1p log2 reciprocal rsqrt sigmoid sin sinh "
    "sqrt tan tanh"
)
_OF_REAL_NUMBERS: Final = "erf erfc erfinv"
# By the dtypes that the first operand may have.
_NAMES: Final = {
    "f": (
        f"{_OF_REAL_NUMBERS} _log_softmax _log_softmax_backward_data _softmax _softmax_backward_data bernoulli celu "
        "elu frac gelu glu hardshrink hardsigmoid hardswish log_sigmoid_forward mish softplus softshrink"
    ),
    "fc": f"{_OF_NUMBERS} normal_ silu uniform_",
    "fi": "ceil floor round trunc",
    "fic": "abs",
    "ib": "bitwise_not",
    # Complex numbers have no order.
    "fib": (
        "amax amin cummax cummin max max_pool2d max_pool2d_with_indices max_pool2d_with_indices_backward "
        "max_pool3d max_pool3d_with_indices max_pool3d_with_indices_backward max_unpool2d max_unpool3d min"
    ),
    "l": (
        "_cholesky_solve_helper _linalg_det _linalg_eigh _linalg_slogdet _linalg_solve_ex _linalg_svd cholesky "
        "cholesky_inverse geqrf linalg_cholesky_ex linalg_householder_product linalg_inv_ex linalg_lu "
        "linalg_lu_factor_ex linalg_lu_solve linalg_qr"
    ),
    "c": "_fft_c2c _fft_c2r",
    "s": "_fft_r2c",
}
#: Operations whose first operand becomes the default float dtype where it has none.
WIDENED: Final = frozenset(
    f"{name}.default" for name in f"{_OF_NUMBERS} {_OF_REAL_NUMBERS}".split()
)
#: Those that are checked at the dispatch key AutogradXLA, where torch_xla has kernels of them.
WITH_GRADIENTS: Final = frozenset(("max_pool2d.default", "max_pool3d.default"))


@functools.cache
def taken() -> dict[str, Condition]:
    """What each operation takes, by its name and overload."""
    return {
        **{
            f"{name}.default": _of(letters)
            for letters, names in _NAMES.items()
            for name in names.split()
        },
        **{
            f"{name}.{overload}": _joined_in("fi")
            for name in ("fmod", "remainder")
            for overload in ("Scalar", "Tensor")
        },
        "adaptive_max_pool2d.default": _adaptive_pool,
        **{
            f"{name}.default": lambda x, *rest, **options: x.numel() and x.dtype in _dtypes("fi")
            for name in ("argmax", "argmin")
        },
        "linalg_solve_triangular.default": _matrices,
        "normal.Tensor_Tensor": _both_of("fc"),
        "normal.Tensor_float": _of("fc"),
        "normal.float_Tensor": lambda mean, std, **options: std.dtype in _dtypes("fc"),
        "roll.default": _not_empty,
        "scatter.src": _scattered,
        "scatter.value": _scattered,
        "scatter_add.default": _scattered,
        "tril.default": _matrix,
        "triangular_solve.default": _matrices,
        "triu.default": _matrix,
    }


def with_overload(name: str) -> str:
    """``sin.default`` of ``sin``."""
    return name if "." in name else f"{name}.default"


def operation(name: str) -> Any:
    """PyTorch's operation of that name, which has its overload with it."""
    import torch

    packet, overload = name.split(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def checked(name: str, correction: Callable[..., Any] | None = None) -> Kernel:
    """``correction``, or the kernel where there is none, which it is given; of the operands that are taken."""
    takes = taken()[name]
    widens = name in WIDENED
    called = operation(name)

    def of_taken(kernel: Kernel, x: Any, *rest: Any, **options: Any) -> Any:
        if not takes(x, *rest, **options):
            if not widens or x.is_complex():
                return by_cpu(called, x, *rest, **options)
            x = _widened(x)
        if correction is None:
            return kernel(x, *rest, **options)
        return correction(kernel, x, *rest, **options)

    return of_taken


def of_taken(name: str, kernel: Kernel) -> Kernel:
    """``kernel``, which stands for the operation of that name, of the operands that are taken."""
    return functools.partial(checked(name), kernel) if name in taken() else kernel


def _widened(x: Any) -> Any:
    import torch

    return x.to(torch.get_default_dtype())


def by_cpu(called: Any, *operands: Any, **options: Any) -> Any:
    """What PyTorch's CPU computes, or its error, which is raised before anything that is recorded is computed."""
    import torch
    from torch.utils import _pytree as pytree

    tensors = [t for t in pytree.tree_leaves((operands, options)) if isinstance(t, torch.Tensor)]
    device = next(t.device for t in tensors if t.device.type == "xla")

    def of(copy: Callable[[Any], Any]) -> Any:
        copies, named = pytree.tree_map_only(torch.Tensor, copy, (operands, options))
        return called(*copies, **named)

    found = of(_stand_in)
    if any(t.numel() for t in tensors):
        found = of(lambda t: t.cpu())
    return pytree.tree_map_only(torch.Tensor, lambda t: t.to(device), found)


def check(called: Any, *operands: Any, **options: Any) -> None:
    """Raise the error that PyTorch's CPU raises for such operands, of which it needs no elements."""
    import torch
    from torch.utils import _pytree as pytree

    copies, named = pytree.tree_map_only(torch.Tensor, _stand_in, (operands, options))
    called(*copies, **named)


def _stand_in(t: Any) -> Any:
    """A tensor of the CPU's of the same shape and dtype, of one element of memory: an index of 0, a pivot of 1."""
    import torch

    return torch.full((), t.dtype is torch.int32, dtype=t.dtype).expand(t.shape)
