"""Compilation targets: one folder each, registered here by name. A target turns an LLVM module into a code image.

The package of a registered target defines

* ``from_options(options)``, the :class:`~.target.Target` that options of a compilation describe
  (CompileError INVALID_ARGUMENT for a value that it does not know);
* ``texts_of(code)``, what there is to read in the code of an artifact for it: suffix of a dump's file -> text.

The compiler's driver and ``tripont explain`` ask here and know no target by its name. The runtime's side of a target is
``core/runtime/backend.h``.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ..errors import invalid_argument
from .target import Target


@dataclass(frozen=True, slots=True)
class Registration:
    """A target by name. ``options``: those of a compilation that it has alone, name -> what the value means.

    Its package is imported when it is asked for.
    """

    name: str
    options: Mapping[str, str]

    @property
    def package(self) -> Any:
        return importlib.import_module(f"{__name__}.{self.name}")


#: By name; the first is the default.
REGISTERED: Final[Mapping[str, Registration]] = {
    r.name: r
    for r in (
        Registration("host", {}),
        Registration(
            "sycl",
            {
                "sycl_device": "SYCL device to compile for: cpu or gpu, and what it has of fp16, fp64, "
                "sub-groups (of 16): cpu,fp16,fp64 (the default)"
            },
        ),
    )
}
DEFAULT: Final = next(iter(REGISTERED))
#: The options of all targets.
OPTIONS: Final[Mapping[str, str]] = {
    "target": f"{' or '.join(REGISTERED)} (the default: {DEFAULT})",
    "cpu": "CPU to compile for: host (the one that runs this, the default) or a name such as x86-64-v2",
    "onednn": "whether the runtime finds oneDNN where the program runs: 1 (the default) or 0",
    **{name: meaning for r in REGISTERED.values() for name, meaning in r.options.items()},
}


def from_options(options: Mapping[str, str]) -> Target:
    """The target that ``options`` name. CompileError INVALID_ARGUMENT for one that does not exist."""
    name = options.get("target") or DEFAULT
    if name not in REGISTERED:
        raise invalid_argument(f"unknown target {name!r}: there are {' and '.join(REGISTERED)}")
    target = REGISTERED[name].package.from_options(options)
    assert isinstance(target, Target)
    return target


def texts_of(target: str, code: bytes) -> dict[str, str]:
    """What there is to read in the code of an artifact for ``target``; nothing if the target is not known here."""
    return dict(REGISTERED[target].package.texts_of(code)) if target in REGISTERED else {}


__all__ = ["DEFAULT", "OPTIONS", "REGISTERED", "Registration", "from_options", "texts_of"]
