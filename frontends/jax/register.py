"""What :func:`tripont.frontends.jax.initialize` does: the plugin, donation, JAX's persistent cache, lowerings."""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable

from tripont import helper_process, library_path
from tripont.fingerprint import compiler_fingerprint

from . import PLATFORM, compat, known_as, linalg, lowerings, ragged_products, warn

# JAX chooses the platform of highest priority as its default; GPU plugins have 400.
PRIORITY = 500


def plugin_options() -> dict[str, str | int | bool]:
    """Options for the PJRT client: what the runtime cannot find out by itself.

    ``python``: the interpreter for the compile worker, one that can import tripont and jaxlib.
    ``python_path``: where this process finds packages, for that interpreter.
    ``compiler_fingerprint``: part of the key of the on-disk cache, so that a new compiler finds no old artifacts.
    """
    options: dict[str, str | int | bool] = {"compiler_fingerprint": compiler_fingerprint()}
    if (
        sys.executable and "TRIPONT_PYTHON" not in os.environ
    ):  # an option would go over the environment
        options["python"] = sys.executable
        if "TRIPONT_PYTHON_PATH" not in os.environ:
            options["python_path"] = helper_process.package_path()
    return options


def _on_failure(error: Exception) -> None:
    warn(
        f"the device '{PLATFORM}' did not start, JAX goes on without it: {error} (`tripont doctor` says more)"
    )


def _attempt(what: str, consequence: str, action: Callable[[], None]) -> None:
    """Do a step that the device can live without; if JAX has changed too much for it, say what that means."""
    try:
        action()
    except Exception as error:
        version = ".".join(map(str, compat.jax_version()))
        warn(f"{what} could not be set up with JAX {version} ({error}): {consequence}")


# These load the runtime, which a process without the device does not need.
def _register_ffi() -> None:
    from . import ffi

    ffi.register(PLATFORM)


def _register_callbacks() -> None:
    from . import buffer_callback, callbacks

    callbacks.register(PLATFORM, {"buffer_callback": buffer_callback.lower})


def _register_inspection() -> None:
    from . import inspection

    inspection.register()


def _end_compiles_at_exit() -> None:
    """Ctrl-C leaves a compile to JAX's own threads, and JAX waits for them when the program ends."""
    import tripont.core._tripont as _tripont

    atexit.register(_tripont.end_compiles)


def register() -> None:
    """Register the platform with JAX. Raises if the plugin cannot be registered at all."""
    chosen = compat.selected_platforms()
    if chosen and PLATFORM not in chosen:
        return  # JAX_PLATFORMS=cpu and the like: keep out of the way
    if compat.jax_version() < compat.OLDEST:
        oldest = ".".join(map(str, compat.OLDEST))
        raise RuntimeError(f"JAX is older than {oldest}: run `pip install -U 'jax>={oldest}'`")
    compat.register_plugin(PLATFORM, library_path(), plugin_options, PRIORITY, _on_failure)
    _attempt(
        "donation",
        "donate_argnums has no effect, programs need more memory",
        lambda: compat.enable_donation(PLATFORM),
    )
    _attempt(
        "JAX's persistent compilation cache",
        "jax_compilation_cache_dir has no effect; tripont's own cache works",
        lambda: compat.enable_persistent_cache(PLATFORM),
    )
    _attempt(
        f"the names in {known_as.VARIABLE}",
        f"all packages are told '{PLATFORM}'",
        known_as.register,
    )
    _attempt(
        "cost analysis before compiling",
        "jax.jit(f).lower(x).cost_analysis() is None; that of a compiled program works",
        lambda: compat.analyse_costs_before_compiling(PLATFORM),
    )
    _attempt(
        "jax2tf",
        "jax2tf.convert(f) needs native_serialization_platforms=['cpu']",
        lambda: compat.export_for_tensorflow(PLATFORM),
    )
    _attempt(
        "linear algebra",
        "decompositions such as jnp.linalg.eigh fail or are slow on this device",
        lambda: linalg.register(PLATFORM),
    )
    _attempt("custom calls", "jax.ffi.ffi_call fails on this device", _register_ffi)
    _attempt(
        "host callbacks",
        "jax.pure_callback, io_callback, jax.debug.print and jax.debug.callback fail on this device",
        _register_callbacks,
    )
    _attempt(
        "the inspection of shardings",
        "jax.debug.inspect_array_sharding fails in programs for several devices",
        _register_inspection,
    )
    _attempt(
        "the end of compiles",
        "a program that ends while it compiles waits for that",
        _end_compiles_at_exit,
    )
    _attempt(
        "the list of unsupported primitives",
        "errors name only the primitive",
        lambda: lowerings.register(PLATFORM),
    )
    _attempt(
        "products of groups of rows",
        "jax.lax.ragged_dot multiplies all rows for each group",
        lambda: ragged_products.register(PLATFORM),
    )
