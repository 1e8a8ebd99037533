"""Everything that depends on JAX's version: each use of a name that JAX does not promise to keep.

Written for JAX 0.10.2 to 0.12. A function here either does its work or raises; :mod:`.register` decides what a failure
means. When JAX changes, this is the file to change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
from jax._src import compilation_cache, xla_bridge
from jax._src.interpreters import mlir

OLDEST = (0, 10, 2)


def jax_version() -> tuple[int, ...]:
    return tuple(jax.__version_info__)


def selected_platforms() -> list[str]:
    """The platforms that the user chose by JAX_PLATFORMS or jax.config; empty when JAX is to choose."""
    value: str | None = jax.config.jax_platforms  # type: ignore[attr-defined]
    return value.split(",") if value else []


def register_plugin(
    platform: str,
    library_path: str,
    make_options: Callable[[], dict[str, str | int | bool]],
    priority: int,
    on_failure: Callable[[Exception], None],
) -> None:
    """Register a PJRT plugin whose client is made when JAX first needs a backend.

    If the client cannot be made, ``on_failure`` is told, and JAX goes on with its other platforms (unless the
    user asked for this one by name, in which case JAX raises).
    """

    def factory() -> Any:
        try:
            return xla_bridge.make_pjrt_c_api_client(platform, options=make_options)
        except Exception as error:
            on_failure(error)
            raise

    xla_bridge.register_plugin(
        platform, priority=priority, library_path=library_path, factory=factory
    )
    # register_plugin has no arguments for these two: fail quietly because `on_failure` already spoke, and do not print
    # "Platform 'xpu' is experimental" in every program.
    registration = xla_bridge._backend_factories[platform]
    xla_bridge._backend_factories[platform] = dataclasses.replace(
        registration, fail_quietly=True, experimental=False
    )


def enable_donation(platform: str) -> None:
    """Have ``donate_argnums`` reach the plugin. JAX drops it for platforms that are not in this list."""
    if platform not in mlir._platforms_with_donation:
        mlir._platforms_with_donation.append(platform)


def donation_enabled(platform: str) -> bool:
    return platform in mlir._platforms_with_donation


def enable_persistent_cache(platform: str) -> None:
    """Have JAX's persistent compilation cache (``jax_compilation_cache_dir``) serve ``platform``.

    JAX asks ``is_cache_used(backend)``, and that function knows the platforms it supports from a list inside itself.
    So the function is wrapped: our backend is shown to it as one that it knows, every other backend as it is.
    """
    original = compilation_cache.is_cache_used
    if getattr(original, "tripont_platform", None) == platform:
        return
    known = SimpleNamespace(platform="cpu", supports_executable_serialization=True)

    def is_cache_used(backend: Any) -> bool:
        return bool(original(known if backend.platform == platform else backend))

    is_cache_used.tripont_platform = platform  # type: ignore[attr-defined]
    compilation_cache.is_cache_used = is_cache_used


def persistent_cache_enabled(platform: str) -> bool:
    return getattr(compilation_cache.is_cache_used, "tripont_platform", None) == platform


def primitives_without_lowering(platform: str) -> dict[str, Any]:
    """Primitives that some platform can lower, but that have neither a default lowering nor one for ``platform``.

    Returns primitives by name, of the modules imported so far.
    """
    tables = mlir._platform_specific_lowerings
    own = tables.get(platform, {})
    missing = {}
    for table in list(tables.values()):
        for primitive in table:
            if primitive not in mlir._lowerings and primitive not in own:
                missing[primitive.name] = primitive
    return missing


def register_lowering(primitive: Any, rule: Callable[..., Any], platform: str) -> None:
    mlir.register_lowering(primitive, rule, platform=platform)


def lowerings_of(platform: str) -> dict[str, tuple[Any, Callable[..., Any]]]:
    """The lowerings that JAX has for ``platform`` alone: primitive and rule by the primitive's name.

    Of the modules imported so far.
    """
    table = mlir._platform_specific_lowerings.get(platform, {})
    return {primitive.name: (primitive, entry.rule) for primitive, entry in table.items()}


def lu_pivots_to_permutation_primitive() -> Any:
    from jax._src.lax import linalg

    return linalg.lu_pivots_to_permutation_p


def has_portable_lowering(primitive: Any) -> bool:
    """Whether JAX lowers ``primitive`` for platforms that it has no rule of their own for."""
    return primitive in mlir._lowerings
