"""``jax.experimental.buffer_callback``: a Python function that writes its results into buffers.

JAX's rule knows XLA's own devices, and jaxlib makes the objects that the function gets. For our platform
:class:`Buffer` and :class:`Context` stand in for them, over the arrays of a host callback (:mod:`.callbacks`): the
operands are copies, and what the function wrote is copied into the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from . import callbacks, compat


class Buffer:
    """An array that is written in place, as jaxlib's ``Buffer`` is for a device that is the host.

    It goes to NumPy by ``np.asarray`` or DLPack, without a copy.
    """

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    @property
    def shape(self) -> tuple[int, ...]:
        return self._array.shape

    @property
    def dtype(self) -> np.dtype:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def writeable(self) -> bool:
        return self._array.flags.writeable

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._array.__dlpack_device__()


class Context:
    """What jaxlib's ``ExecutionContext`` is for a device that has no stream of CUDA's."""

    @property
    def stage(self) -> Any:
        return compat.execution_stage()

    @property
    def stream(self) -> int:
        raise jax.errors.JaxRuntimeError(
            "UNIMPLEMENTED: XLA FFI GPU context is not available: the device has no CUDA stream"
        )


def lower(
    context: Any,
    *operands: Any,
    callback: Callable[..., object],
    in_tree: Any,
    out_tree: Any,
    has_side_effect: bool,
    input_output_aliases: Sequence[tuple[int, int]],
    **_: Any,
) -> Sequence[Any]:
    """The rule of the primitive."""
    results = [(tuple(aval.shape), np.dtype(aval.dtype)) for aval in context.avals_out]
    aliased = {result: operand for operand, result in input_output_aliases}

    def call(*arrays: np.ndarray) -> list[np.ndarray]:
        operands = list(arrays)
        written = []
        for number, (shape, dtype) in enumerate(results):
            if number in aliased:  # one memory for both; `arrays` cannot be written
                operands[aliased[number]] = operands[aliased[number]].copy()
                written.append(operands[aliased[number]])
            else:
                written.append(np.zeros(shape, dtype))
        arguments, options = in_tree.unflatten(map(_for_reading, operands))
        outputs = out_tree.unflatten(map(Buffer, written))
        if callback(Context(), outputs, *arguments, **options) is not None:
            raise ValueError("buffer_callback callback must not return any values.")
        return written

    values, _token, _handle = callbacks.emit(
        context,
        call,
        None,
        operands,
        context.avals_in,
        context.avals_out,
        has_side_effect=has_side_effect,
    )
    return values


def _for_reading(array: np.ndarray) -> Buffer:
    view = array.view()
    view.flags.writeable = False
    return Buffer(view)
