"""Host callbacks: ``jax.pure_callback``, ``io_callback``, ``jax.debug.print``, ``jax.debug.callback`` and others.

All of them lower through one function of JAX's, ``emit_python_callback``, which knows JAX's own platforms only. For a
program for ours, :func:`emit` stands in for it: it gives the Python function a number and emits the custom call
``tripont.python_callback`` with a name made of it, which core/bindings/callbacks.cc runs.

A number is valid in this process only, for as long as an executable of the program exists. Half of it is random, so
that a program that another process compiled can never call the wrong function. The compiler and the cache see programs
without the numbers (core/runtime/callback_names.h).
"""

from __future__ import annotations

import atexit
import itertools
import logging
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

import jax
import numpy as np
import tripont.core._tripont as _tripont
from tripont.core.tracebacks import PlainTracebacks

from . import compat

TARGET: Final = "tripont.python_callback"

#: Primitives whose CPU rules call back, and are ours too. (pure_callback and io_callback have portable rules.)
FROM_CPU: Final = ("check", "debug_callback", "debug_print", "spsolve")

Function = Callable[..., Sequence[Any]]

# Never a small number: those stand for the functions of a program whose names were taken out.
_process: Final = (1 << 39 | secrets.randbits(39)) << 24
_counter = itertools.count(1)


class Handle:
    """Lets programs be loaded that call a function. Loaded programs keep the function themselves."""

    def __init__(self, function: Function) -> None:
        self.number = _process + next(_counter)
        _tripont.add_callback(self.number, function)

    @property
    def name(self) -> str:
        return f"tripont.callback.{self.number:016x}"

    def __del__(
        self, remove: Callable[[int], None] = _tripont.remove_callback
    ) -> None:  # the default is there still when the interpreter ends
        remove(self.number)


def checked(function: Function, results: Sequence[tuple[tuple[int, ...], np.dtype]]) -> Function:
    """``function``, whose results are converted to arrays and must have these shapes and dtypes.

    Called from whatever thread with 64-bit types as they are now: a ``with jax.enable_x64(True)`` around the program
    holds for the thread that entered it, and only while it is in there. The device's own thread would cut off the
    callback's numbers.
    """
    x64 = compat.x64_enabled()

    def call(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        with jax.enable_x64(x64):
            return converted(*arrays)

    def converted(*arrays: np.ndarray) -> tuple[np.ndarray, ...]:
        values = function(*arrays)
        if len(values) != len(results):
            raise ValueError(
                f"the callback gave {len(values)} results, the program expects {len(results)}"
            )
        given = tuple(compat.canonicalize_value(np.asarray(value)) for value in values)
        for n, (value, (shape, dtype)) in enumerate(zip(given, results, strict=True)):
            if value.shape != shape or value.dtype != dtype:
                raise ValueError(
                    f"result {n} of the callback is {value.dtype}{list(value.shape)}, the program expects "
                    f"{dtype}{list(shape)} (`result_shape_dtypes`)"
                )
        return given

    return call


def emit(
    context: Any,
    callback: Function,
    token: Any | None,
    operands: Sequence[Any],
    operand_avals: Sequence[Any],
    result_avals: Sequence[Any],
    *,
    has_side_effect: bool,
    returns_token: bool = True,
    partitioned: bool = False,
    sharding: Any | None = None,
) -> tuple[Sequence[Any], Any, Any]:
    """What JAX's function of these arguments does: (results, the new token if one was given, an object to keep)."""
    del operand_avals, returns_token, partitioned
    shapes = [(tuple(aval.shape), np.dtype(aval.dtype)) for aval in result_avals]
    handle = Handle(checked(callback, shapes))
    context.module_context.add_keepalive(handle)
    results, new_token = compat.emit_custom_call(
        context,
        TARGET,
        list(operands),
        token,
        has_side_effect=has_side_effect,
        sharding=sharding,
        callback=handle.name,
    )
    return results, new_token, handle


def register(platform: str, rules: dict[str, Callable[..., Any]]) -> None:
    """Have JAX's callbacks work on ``platform``, and the primitives of these names that have rules of ours."""
    _tripont.start_callbacks()
    atexit.register(_tripont.stop_callbacks)
    compat.replace_callback_emitter(platform, emit)
    plain = PlainTracebacks()
    for logger in compat.CALLBACK_LOGGERS:  # JAX logs what a callback raises where it was raised
        logging.getLogger(logger).addFilter(plain)
    compat.follow_rules(FROM_CPU, rules, platform)
