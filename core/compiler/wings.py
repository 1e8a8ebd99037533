"""The wings: parts of tripont that the rest does not know. Each can be read, tested, left out or dropped alone.

A wing is a row of :data:`WINGS`, the only place that names it. The row says which modules are the wing, and which of
them the registries of the core import when they are asked for the first time. Where the modules of a wing are missing,
everything else works, and the error of a program that needs the wing names it (:func:`lacking`). Packages that are
installed beside this one extend the same registries by entry points (``tripont.ops``, ``tripont.targets``).
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_COMPILER: Final = "tripont.core.compiler"


@dataclass(frozen=True, slots=True)
class Wing:
    """One wing. ``purpose`` completes "which is for ...". ``modules``: the modules and packages without which the rest
    works. ``provides``: what programs and users ask for by name and this wing alone has: operations, targets of custom
    calls, commands, kinds of devices. ``native``: a name that the wing's C++ defines in ``tripont.core._tripont``; a
    build can leave it out (``TRIPONT_WITHOUT`` in cmake/wings.cmake).

    Modules by registry: ``ops`` registers ops (``compiler/ops``); ``passes`` has passes and laws
    (``compiler/pipeline.py``), ``functions`` functions of vectors (``compiler/codegen/vector_math``), ``targets`` a
    target (``compiler/targets``), ``commands`` commands (``tripont/cli/main.py``).
    """

    name: str
    purpose: str
    modules: tuple[str, ...]
    provides: tuple[str, ...] = ()
    native: str = ""
    ops: str = ""
    passes: str = ""
    functions: str = ""
    targets: str = ""
    commands: str = ""


WINGS: Final = (
    Wing(
        "special",
        "special functions",
        modules=(
            f"{_COMPILER}.special",
            *(
                f"{_COMPILER}.codegen.vector_math.{name}"
                for name in ("gamma", "gamma_coefficients", "incomplete", "incomplete_beta")
            ),
            *(
                f"{_COMPILER}.codegen.vector_math.{name}"
                for name in ("incomplete_slope", "uniform_beta", "uniform_gamma", "zeta")
            ),
            f"{_COMPILER}.reference.gamma",
            f"{_COMPILER}.reference.incomplete",
        ),
        provides=(
            "tripont.igamma",
            "tripont.igammac",
            "tripont.igamma_grad_a",
            "tripont.regularized_incomplete_beta",
        ),
        ops=f"{_COMPILER}.special.ops",
        functions=f"{_COMPILER}.special.functions",
    ),
    Wing(
        "sizes",
        "sizes that depend on values",
        modules=(f"{_COMPILER}.sizes",),
        provides=("set_dimension_size", "get_dimension_size", "bounds"),
        ops=f"{_COMPILER}.sizes.ops",
        passes=f"{_COMPILER}.sizes.passes",
    ),
    Wing(
        "sycl",
        "SYCL devices",
        modules=(f"{_COMPILER}.targets.sycl",),
        provides=("sycl",),
        targets=f"{_COMPILER}.targets.sycl",
    ),
    Wing(
        "explain",
        "the page that explains a program",
        modules=("tripont.explain",),
        provides=("tripont explain",),
        commands="tripont.explain.command",
    ),
    Wing(
        "kernels",
        "kernels that users write",
        modules=("tripont.kernels",),
        native="register_kernel",
    ),
    Wing(
        "interop",
        "exchanging arrays between frameworks",
        modules=("tripont.interop",),
        native="exchange",
    ),
    Wing(
        "tensorflow",
        "TensorFlow's device and its bridge",
        modules=("tripont.tensorflow", "tripont.frontends.tensorflow"),
    ),
)


def parts(registry: str) -> Iterator[Any]:
    """The modules that the wings here have for a registry: the name of a field of :class:`Wing`."""
    for wing in WINGS:
        module = getattr(wing, registry)
        if not module:
            continue
        try:
            yield importlib.import_module(module)
        except ModuleNotFoundError as error:
            # A wing that is here and lacks something else is broken, not missing.
            if not _is_part_of(module, error.name or ""):
                raise


def is_here(wing: Wing) -> bool:
    """Whether all modules of ``wing`` are installed, and its C++ is a part of this build."""
    return all(_is_found(module) for module in wing.modules) and _is_built(wing)


def check_built(name: str) -> None:
    """Raises ImportError if this build's C++ lacks that of the wing ``name``. The wing's Python calls it first."""
    wing = next(wing for wing in WINGS if wing.name == name)
    if not _is_built(wing):
        raise ImportError(
            f"the wing {name!r}, which is for {wing.purpose}, is not built: this tripont was made without its C++"
            f" (the CMake option TRIPONT_WITHOUT); `pip install .` without that option builds it"
        )


def lacking(name: str) -> str:
    """The end of an error about ``name``, if a wing that is missing here has it; else empty."""
    for wing in WINGS:
        if name in wing.provides and not is_here(wing):
            return (
                f"; it needs the wing {wing.name!r}, which is for {wing.purpose} and is missing in this"
                " installation of tripont"
            )
    return ""


def _is_built(wing: Wing) -> bool:
    return not wing.native or hasattr(importlib.import_module("tripont.core._tripont"), wing.native)


def _is_part_of(module: str, package: str) -> bool:
    return bool(package) and f"{module}.".startswith(f"{package}.")


def _is_found(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


__all__ = ["WINGS", "Wing", "check_built", "is_here", "lacking", "parts"]
