"""A kernel that programs can call, and its call from JAX."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from . import building
from .prototype import Parameter, Prototype, SignatureError, read

Shape = tuple[int, ...]
#: Shapes of the results from those of the operands and the attributes: one shape, or one for each result.
ShapeRule = Callable[..., "Shape | Sequence[Shape]"]
Work = Literal["elements", "rows"]

_GRAIN: Final = {"elements": 16384, "rows": 1}
# Libraries with kernels: programs hold addresses in them.
_loaded: Final[list[ctypes.CDLL]] = []


@dataclass(frozen=True)
class Kernel:
    """A registered kernel. Call it with its operands in order and its attributes by name.

    ``name`` is the custom call's name, by which programs of every framework in this process can call it.
    """

    name: str
    prototype: Prototype
    shapes: ShapeRule | None = field(default=None, compare=False)
    vmap_method: str | None = "sequential"

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        """Call the kernel from JAX: arrays on an xpu device, also inside jit, vmap, scan and so on.

        Gives one array, or a tuple of them. Raises SignatureError if operands or attributes do not fit
        the prototype; for gradients, wrap the call in jax.custom_vjp.
        """
        import jax

        arrays = [
            self._operand(p, o) for p, o in zip(self.prototype.operands, operands, strict=False)
        ]
        if len(operands) != len(self.prototype.operands):
            names = ", ".join(p.name for p in self.prototype.operands)
            raise SignatureError(
                f"kernel {self.name!r} takes {len(self.prototype.operands)} operands ({names}), "
                f"{len(operands)} given"
            )
        values = self._attributes(attributes)
        shapes = self.result_shapes(*[a.shape for a in arrays], **attributes)
        results = tuple(
            jax.ShapeDtypeStruct(shape, self._result_dtype(p, arrays))  # type: ignore[no-untyped-call]
            for shape, p in zip(shapes, self.prototype.results, strict=True)
        )
        single = len(results) == 1
        call = jax.ffi.ffi_call(
            self.name, results[0] if single else results, vmap_method=self.vmap_method
        )
        return call(*arrays, **values)

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

    def _operand(self, parameter: Parameter, operand: Any) -> Any:
        import jax.numpy as jnp

        if not hasattr(operand, "dtype") or not hasattr(operand, "shape"):
            operand = jnp.asarray(operand, parameter.type.numpy or None)
        if parameter.type.numpy and operand.dtype.name != parameter.type.numpy:
            raise SignatureError(
                f"kernel {self.name!r}: operand {parameter.name!r} is "
                f"{operand.dtype.name}{list(operand.shape)}, the kernel takes {parameter.type.numpy}"
            )
        return operand

    def _result_dtype(self, parameter: Parameter, operands: Sequence[Any]) -> Any:
        if parameter.type.numpy:
            import jax.numpy as jnp

            return jnp.dtype(parameter.type.numpy)
        return operands[0].dtype  # void*: what the first operand is

    def _attributes(self, given: dict[str, Any]) -> dict[str, Any]:
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


def from_c(
    source: str,
    *,
    name: str | None = None,
    function: str | None = None,
    shapes: ShapeRule | None = None,
    work: Work = "elements",
    grain: int | None = None,
    flags: Sequence[str] = (),
    vmap_method: str | None = "sequential",
) -> Kernel:
    """A kernel from C source, compiled by the system's compiler (``$CC``, cc, gcc or clang) and kept in the cache.

    ``function``: which function of the source; by default the only one that is not static. ``name``: what
    programs call it, by default the function's name. ``shapes``: the results' shapes, from the operands'
    shapes and the attributes; by default those of the first operand. ``work``, ``grain``: for a kernel with
    ``begin`` and ``end``, what it counts (elements of the first result, or rows: its first dimension) and how
    many are worth a thread. ``flags``: more for the compiler. ``vmap_method``: see jax.ffi.ffi_call.

    A kernel of the same name made earlier is replaced, for programs compiled from now on.
    Raises SignatureError for a prototype that is no kernel's or source that does not compile, RuntimeError
    if there is no compiler.
    """
    parsed = read(source, function)
    library = ctypes.CDLL(str(building.compile_c(source, parsed, flags)))
    _loaded.append(library)
    entry = ctypes.cast(getattr(library, building.ENTRY), ctypes.c_void_p).value
    assert entry is not None
    kernel = Kernel(name or parsed.name, parsed, shapes, vmap_method)
    _register(kernel, entry, work, grain, None)
    return kernel


def from_llvm_ir(
    source: str,
    signature: str,
    *,
    name: str | None = None,
    shapes: ShapeRule | None = None,
    work: Work = "elements",
    grain: int | None = None,
    vmap_method: str | None = "sequential",
) -> Kernel:
    """A kernel from the text of an LLVM module; needs no compiler on the machine.

    ``signature``: the C prototype of its function, such as ``"void scale(const float* x, float* y)"``. The
    module may call LLVM's intrinsics, but no library. The rest is as for :func:`from_c`.
    """
    parsed = read(signature)
    code, imports, offset = building.compile_llvm_ir(source, parsed)
    kernel = Kernel(name or parsed.name, parsed, shapes, vmap_method)
    _register(kernel, offset, work, grain, (code, imports))
    return kernel


def _register(
    kernel: Kernel,
    entry: int,
    work: Work,
    grain: int | None,
    image: tuple[bytes, list[tuple[str, int]]] | None,
) -> None:
    import tripont.core._tripont as _tripont

    if work not in _GRAIN:
        raise SignatureError(f"work={work!r}: expected 'elements' or 'rows'")
    parameters = [
        (p.kind, p.name, p.array, p.of_result, p.dimension, p.type.code)
        for p in kernel.prototype.parameters
    ]
    _tripont.register_kernel(
        kernel.name,
        entry,
        parameters,
        kernel.prototype.returns == "int",
        work == "rows",
        grain if grain is not None else _GRAIN[work],
        image,
    )
