"""Another name for the platform, told to packages that list the platforms they know.

``TRIPONT_JAX_KNOWN_AS=mujoco=cpu,brax=cpu``: these two packages are told that the device's platform is ``cpu``, by
``device.platform``, ``backend.platform`` and ``jax.default_backend()``. ``TRIPONT_JAX_KNOWN_AS=cpu``: all packages and
programs are, JAX excepted, which has to know what it compiles for. Nothing else changes: ``jax.devices("cpu")`` are
still those of JAX's own CPU backend.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping
from types import FrameType

from . import PLATFORM, compat

VARIABLE = "TRIPONT_JAX_KNOWN_AS"

#: Packages that compile for the device, or start it: they are always told its own name.
_INITIATED = frozenset({"jax", "jaxlib", "jax_plugins", "tripont"})
_EVERYBODY = ""


def parse(text: str) -> dict[str, str]:
    """The name for each package, and under "" that for all others. Raises ValueError for a text of another form."""
    names = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        package, _, name = part.rpartition("=")
        if not re.fullmatch(r"(\w+=)?[a-z]\w*", part):
            raise ValueError(
                f"{VARIABLE}={text}: '{part}' is neither a platform nor package=platform, such as mujoco=cpu"
            )
        if package in _INITIATED:
            raise ValueError(f"{VARIABLE}={text}: {package} must know the device by its own name")
        names[package] = name
    return names


def name_for(names: Mapping[str, str], caller: FrameType) -> str:
    """What the code that runs in ``caller`` is to be told."""
    module: str = caller.f_globals.get("__name__") or ""
    package = module.partition(".")[0]
    if package in _INITIATED:
        return PLATFORM
    return names.get(package) or names.get(_EVERYBODY) or PLATFORM


def register() -> None:
    """Have the platform answer to the names in the environment, if there are any."""
    names = parse(os.environ.get(VARIABLE, ""))
    if names:
        compat.rename_platform(PLATFORM, functools.partial(name_for, names))
