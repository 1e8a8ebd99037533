"""``jax.debug.inspect_array_sharding`` and ``visualize_array_sharding`` in programs for several devices.

JAX writes two addresses into such a program, of a C function and of the Python function that is to be shown the
sharding, and XLA calls whatever stands there. A program may come from anybody, so here nothing of it is called: its
bytes are only a name, looked up among those that JAX wrote in this process for functions that still exist.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import tripont.core._tripont as _tripont

from . import compat

# A function's address names another one once the function is gone: JAX's program keeps it, and nobody else does.
_inspectors: weakref.WeakValueDictionary[bytes, Callable[[Any], object]] = (
    weakref.WeakValueDictionary()
)


def show(config: bytes, sharding: bytes) -> bool:
    """Show a serialized OpSharding to the function that JAX wrote into a program as ``config``; False if it is gone.

    Raises what the function raises.
    """
    inspector = _inspectors.get(config)
    if inspector is None:
        return False
    inspector(compat.read_sharding(sharding))
    return True


def register() -> None:
    """Have functions that inspect shardings called when a program for several devices is compiled."""
    compat.note_inspectors(_inspectors.__setitem__)
    _tripont.show_shardings(show)
