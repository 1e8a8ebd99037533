"""The JAX frontend: ``import jax`` finds it through the entry point ``jax_plugins`` and calls :func:`initialize`."""

from __future__ import annotations

import warnings

PLATFORM = "xpu"


def initialize() -> None:
    """Register the platform ``xpu`` with JAX. JAX calls this before it makes its first backend.

    Never raises: whatever goes wrong becomes one warning that says how to mend it, and JAX runs without the device.
    """
    try:
        from . import register

        register.register()
    except Exception as error:  # a broken plugin must not break JAX
        warn(
            f"the device '{PLATFORM}' is not available: {type(error).__name__}: {error} "
            "(`tripont doctor` says more)"
        )


def warn(problem: str) -> None:
    """A warning of one line. (The line of JAX's source that Python would add says nothing about the problem.)"""
    warnings.warn_explicit(problem, RuntimeWarning, "tripont", 0)
