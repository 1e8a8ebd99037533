"""A kernel that programs can call: on arrays of JAX, tensors of TensorFlow, tensors of PyTorch/XLA."""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from .prototype import Parameter, Prototype, SignatureError

Shape = tuple[int, ...]
#: Shapes of the results from those of the operands and the attributes: one shape, or one for each result.
ShapeRule = Callable[..., "Shape | Sequence[Shape]"]

#: Every kernel of the process by its ``number``: torch.compile can hold numbers in a graph, and no objects of ours.
KERNELS: Final[dict[int, Kernel]] = {}
_numbers: Final = itertools.count()


@dataclass(frozen=True)
class Kernel:
    """A registered kernel. Call it with its operands in order and its attributes by name.

    ``name`` is the custom call's name, by which programs of every framework in this process can call it;
    ``target`` the name that this object's own calls use, which no later kernel of the name takes over.
    """

    name: str
    prototype: Prototype
    shapes: ShapeRule | None = field(default=None, compare=False)
    vmap_method: str | None = "sequential"
    target: str = ""
    number: int = field(default_factory=lambda: next(_numbers), compare=False, repr=False)

    def __post_init__(self) -> None:
        KERNELS[self.number] = self

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Call the kernel in the framework of its operands: one array, or a tuple of them.

        If any operand is a tensor of TensorFlow or PyTorch that framework's :meth:`tensorflow` or :meth:`torch` is
        called, else :meth:`jax`. Raises SignatureError if operands or attributes do not fit the prototype.
        """
        return getattr(self, _framework_of(operands))(*operands, **attributes)

    def jax(self, *operands: Any, **attributes: Any) -> Any:
        """Call the kernel from JAX: arrays on an xpu device, also inside jit, vmap, scan and so on.

        For gradients, wrap the call in jax.custom_vjp.
        """
        import jax
        import jax.numpy as jnp

        arrays = [
            o
            if hasattr(o, "dtype") and hasattr(o, "shape")
            else jnp.asarray(o, p.type.numpy or None)
            for p, o in zip(self.prototype.operands, operands, strict=False)
        ]
        described = [(a.shape, a.dtype.name) for a in arrays]
        results = self.results(len(operands), described, attributes)
        specs = tuple(
            jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))  # type: ignore[no-untyped-call]
            for shape, dtype in results
        )
        single = len(specs) == 1
        call = jax.ffi.ffi_call(
            self.target or self.name, specs[0] if single else specs, vmap_method=self.vmap_method
        )
        return call(*arrays, **self.numbers(attributes))

    def tensorflow(self, *operands: Any, **attributes: Any) -> Any:
        """Call the kernel from TensorFlow: tensors on XPU, eagerly and inside tf.function.

        Shapes must be known when the function is traced. For gradients, wrap the call in tf.custom_gradient.
        """
        from . import call_tensorflow

        return call_tensorflow.call(self, operands, attributes)

    def torch(self, *operands: Any, **attributes: Any) -> Any:
        """Call the kernel from PyTorch: tensors of PyTorch/XLA on tripont's device, or torchax's on xpu.

        The call becomes part of the graph that is recorded, also in torch.compile(backend="openxla"). For gradients,
        wrap the call in a torch.autograd.Function.
        """
        from . import call_torch

        return call_torch.call(self, operands, attributes)

    def results(
        self, given: int, operands: Sequence[tuple[Shape, str]], attributes: dict[str, Any]
    ) -> tuple[tuple[Shape, str], ...]:
        """Shapes and NumPy's dtype names of the results, from those of the operands, of which ``given`` were given.

        Raises SignatureError if the operands do not fit the prototype.
        """
        if given != len(self.prototype.operands):
            names = ", ".join(p.name for p in self.prototype.operands)
            raise SignatureError(
                f"kernel {self.name!r} takes {len(self.prototype.operands)} operands ({names}), "
                f"{given} given"
            )
        for parameter, (shape, dtype) in zip(self.prototype.operands, operands, strict=True):
            if parameter.type.numpy and dtype != parameter.type.numpy:
                raise SignatureError(
                    f"kernel {self.name!r}: operand {parameter.name!r} is "
                    f"{dtype}{list(shape)}, the kernel takes {parameter.type.numpy}"
                )
        self.numbers(attributes)
        shapes = self.result_shapes(*[shape for shape, _ in operands], **attributes)
        # void*: what the first operand is
        return tuple(
            (shape, p.type.numpy or operands[0][1])
            for shape, p in zip(shapes, self.prototype.results, strict=True)
        )

    def result_shapes(self, *operands: Shape, **attributes: Any) -> tuple[Shape, ...]:
        """The shapes of the results for operands of these shapes."""
        count = len(self.prototype.results)
        if self.shapes is None:
            if not operands:
                raise SignatureError(
                    f"kernel {self.name!r} has no operands: `shapes` must say the shape of its results"
                )
            return (tuple(operands[0]),) * count
        given: tuple[Any, ...] = tuple(self.shapes(*operands, **attributes))
        one = all(isinstance(d, int | np.integer) for d in given)
        shapes = (given,) * count if one else given
        if len(shapes) != count:
            raise SignatureError(
                f"kernel {self.name!r} has {count} results, its `shapes` gave {len(shapes)} shapes"
            )
        return tuple(tuple(int(d) for d in shape) for shape in shapes)

    def numbers(self, given: dict[str, Any]) -> dict[str, Any]:
        """The attributes as NumPy numbers of the prototype's types. Raises SignatureError."""
        known = {p.name: p for p in self.prototype.attributes}
        unknown = sorted(set(given) - set(known))
        missing = sorted(set(known) - set(given))
        if unknown or missing:
            problem = f"no attribute {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
            raise SignatureError(
                f"kernel {self.name!r}: {problem}; its attributes are {', '.join(known) or 'none'}"
            )
        return {name: self._number(known[name], value) for name, value in given.items()}

    def _number(self, parameter: Parameter, value: Any) -> Any:
        dtype = np.dtype(parameter.type.numpy)
        try:
            number = np.asarray(value)
            if number.shape or number.dtype.kind not in "biuf":
                raise TypeError
        except Exception as error:  # a traced value, text, ...
            raise SignatureError(
                f"kernel {self.name!r}: attribute {parameter.name!r} must be a number that is known when "
                f"the program is traced, not {value!r} (pass what changes as an operand)"
            ) from error
        converted = number.astype(dtype)[()]
        exact = dtype.kind == "f" or (float(converted) == float(number) and not math.isnan(number))
        if not exact:
            raise SignatureError(
                f"kernel {self.name!r}: attribute {parameter.name!r} is {value!r}, "
                f"which is no {parameter.c_type}"
            )
        return converted

    def target_with(self, attributes: dict[str, Any]) -> str:
        """The target of a call with the attributes written into it (core/compiler/formats/ffi_attributes.py)."""
        from tripont.core.compiler.formats.ffi_attributes import IN_TARGET

        numbers = self.numbers(attributes)
        written = ", ".join(f"{name} = {_mlir(numbers[name])}" for name in sorted(numbers))
        return f"{self.target or self.name}{IN_TARGET}{{{written}}}"


def _mlir(number: Any) -> str:
    """A NumPy number as MLIR writes an attribute; floating point by its bits, which any value has."""
    kind, bits = number.dtype.kind, 8 * number.dtype.itemsize
    if kind == "b":
        return "true" if number else "false"
    if kind == "f":
        return f"0x{number.view(f'u{bits // 8}'):0{bits // 4}x} : f{bits}"
    return f"{number} : {'ui' if kind == 'u' else 'i'}{bits}"


def _framework_of(operands: Sequence[Any]) -> str:
    """Which framework's tensors there are among the operands. Raises TypeError for tensors of several."""
    found = set()
    tf, torch, jax = (sys.modules.get(name) for name in ("tensorflow", "torch", "jax"))
    for operand in operands:
        if tf is not None and isinstance(operand, (tf.Tensor, tf.Variable)):
            found.add("tensorflow")
        elif torch is not None and isinstance(operand, torch.Tensor):
            found.add("torch")
        elif jax is not None and isinstance(operand, jax.Array):
            found.add("jax")
    if len(found) > 1:
        raise TypeError(
            f"operands of {' and '.join(sorted(found))} in one call: exchange them with tripont.interop"
        )
    return found.pop() if found else "jax"
