"""Custom calls: ``jax.ffi.register_ffi_target(name, handler, platform='xpu')`` reaches the runtime's registry.

JAX keeps what users register per platform, and hands it to whoever says that he takes the registrations of that
platform. Handlers that are registered for other platforms are never used.
"""

from __future__ import annotations

from typing import Any

import tripont.core._tripont as _tripont

from . import compat


def _register_target(
    name: str, function: Any, platform: str, api_version: int, traits: Any
) -> None:
    del platform, traits  # traits are about GPUs' command buffers
    _tripont.register_custom_call(name, function, api_version)


def _register_type(name: str, registration: Any) -> None:
    _tripont.register_custom_type(name, registration)


def register(platform: str) -> None:
    """Take the registrations for ``platform``: those made so far, and later ones when they are made."""
    compat.set_custom_call_handlers(platform, _register_target, _register_type)
