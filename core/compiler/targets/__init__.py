"""Compilation targets, registered by name. A target turns an LLVM module into a code image.

A target is a package: the host's folder here, that of a wing (:mod:`..wings`), or a package of somebody else
that names its :class:`Registration` in an entry point::

    [project.entry-points."tripont.targets"]
    abacus = "abacus.target:REGISTRATION"

The package defines

* ``from_options(options)``, the :class:`~.target.Target` that options of a compilation describe
  (CompileError INVALID_ARGUMENT for a value that it does not know);
* ``texts_of(code)``, what there is to read in the code of an artifact for it: suffix of a dump's file -> text;
* ``kernel_names(module)``, if it has a ``kernel_format``: the names of the kernels in such a module of a user's
  (ValueError for bytes that are not one).

The compiler's driver, the command line, ``tripont explain`` and ``tripont.kernels`` ask here and know no target by its
name. The runtime's side of a target is the backend of the same name (``core/runtime/backend_registry.h``).
"""

from __future__ import annotations

import functools
import importlib.metadata
from collections.abc import Mapping
from typing import Final

from .. import wings
from ..ir.errors import CompileError, invalid_argument
from .registration import Registration
from .target import Target

#: Where packages that are installed beside this one name their targets.
ENTRY_POINTS: Final = "tripont.targets"


#: By name; the first is the default.
REGISTERED: Final[Mapping[str, Registration]] = {
    r.name: r
    for r in (
        Registration(
            "host",
            "host (the CPU that runs this, the default) or a name such as x86-64-v2",
            device_option="cpu",
        ),
        *(wing.REGISTRATION for wing in wings.parts("targets")),
    )
}
DEFAULT: Final = next(iter(REGISTERED))
#: The options of all targets. "cpu" is an option of each: library calls run on the CPU.
OPTIONS: Final[Mapping[str, str]] = {
    "target": f"{' or '.join(REGISTERED)} (the default: {DEFAULT})",
    "onednn": "whether the runtime finds oneDNN where the program runs: 1 (the default) or 0",
    "threads": "for how many threads of a CPU work is cut (4, the default, or another power of two)",
    "cpu": f"CPU to compile for: {REGISTERED[DEFAULT].device}",
    "device": "device to compile for: "
    + "; ".join(
        f"{r.name}: {r.device}" for r in REGISTERED.values() if r.device_option == "device"
    ),
    **{
        r.old_device_option: f"the name that {r.device_option} had before"
        for r in REGISTERED.values()
        if r.old_device_option
    },
}


@functools.cache
def find(name: str) -> Registration | None:
    """The target of that name: one of ``REGISTERED``, else that of an installed package. None if there is none."""
    if name in REGISTERED:
        return REGISTERED[name]
    for entry in importlib.metadata.entry_points(group=ENTRY_POINTS, name=name):
        try:
            registration = entry.load()
        except Exception as error:
            raise CompileError(
                "UNAVAILABLE", f"the target {name!r} of {entry.value} cannot be loaded: {error}"
            ) from error
        if not isinstance(registration, Registration) or registration.name != name:
            raise CompileError(
                "UNAVAILABLE", f"{entry.value} is not the registration of a target {name!r}"
            )
        return registration
    return None


def registration(name: str) -> Registration:
    """As :func:`find`; CompileError INVALID_ARGUMENT for a target that does not exist."""
    found = find(name)
    if found is None:
        known = " and ".join(REGISTERED)
        raise invalid_argument(f"unknown target {name!r}: there are {known}{wings.lacking(name)}")
    return found


def from_options(options: Mapping[str, str]) -> Target:
    """The target that ``options`` name. CompileError INVALID_ARGUMENT for one that does not exist."""
    chosen = registration(options.get("target") or DEFAULT)
    if options.get(chosen.old_device_option) and not options.get(chosen.device_option):
        options = {**options, chosen.device_option: options[chosen.old_device_option]}
    target = chosen.package.from_options(options)
    assert isinstance(target, Target)
    assert target.name == chosen.name, (target.name, chosen.name)
    return target


def texts_of(target: str, code: bytes) -> dict[str, str]:
    """What there is to read in the code of an artifact for ``target``; nothing if the target is not known here."""
    found = find(target)
    return {} if found is None else dict(found.package.texts_of(code))


def kernel_names(kernel_format: str, module: bytes) -> list[str]:
    """The names of the kernels in a user's ``module`` of that format (:attr:`Registration.kernel_format`).

    Raises ValueError for bytes that are not such a module.
    """
    for target in REGISTERED.values():
        if target.kernel_format == kernel_format:
            return list(target.package.kernel_names(module))
    raise ValueError(f"no target takes {kernel_format} modules")


__all__ = [
    "DEFAULT",
    "ENTRY_POINTS",
    "OPTIONS",
    "REGISTERED",
    "Registration",
    "find",
    "from_options",
    "kernel_names",
    "registration",
    "texts_of",
]
