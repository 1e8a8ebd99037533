"""How JAX computes a call: compiled and operation by operation on ``xpu``, compiled on its CPU."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from tests.scan.call import Call, outcome_of
from tests.scan.judge import Outcome

WAYS: Final = ("compiled",)
_WIDE: Final = {"f": np.float64, "c": np.complex128}


@functools.cache
def _devices() -> dict[str, jax.Device]:
    jax.config.update("jax_platforms", "xpu,cpu")  # type: ignore[no-untyped-call]
    return {name: jax.devices(name)[0] for name in ("xpu", "cpu")}


@contextlib.contextmanager
def _on(device: str, wide: bool) -> Iterator[None]:
    with jax.default_device(_devices()[device]), jax.enable_x64(wide):
        yield


def _compute(
    function: Callable[..., Any], arguments: Sequence[Any], device: str, way: str, wide: bool
) -> Outcome:
    def compute() -> list[np.ndarray]:
        with _on(device, wide):
            given = [jax.device_put(a, _devices()[device]) for a in arguments]
            results = (jax.jit(function) if way == "compiled" else function)(*given)
            flat = jax.tree.leaves(results)
            return [np.asarray(jax.random.key_data(y) if _is_key(y) else y) for y in flat]

    return outcome_of(compute)


def _kind(array: np.ndarray) -> str:
    """NumPy's letter for a kind of types, which for bfloat16 and smaller floats is that of other structures."""
    return "f" if jnp.issubdtype(array.dtype, jnp.floating) else array.dtype.kind


def _is_key(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jax.dtypes.prng_key))


def call(
    name: str,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    ways: Sequence[str] = WAYS,
    wide: bool = False,
    precise: Callable[[], list[np.ndarray]] | None = None,
    each: bool = False,
    exact: bool = False,
) -> Call:
    """A call of ``function`` for arrays.

    ``wide``: with 64-bit types. ``precise``: results in double precision, which XLA's CPU computes where nothing else
    does. ``exact``: there is no such result, as numbers that are drawn depend on the type. ``each``: as in
    :class:`Call`.
    """

    def of_doubles() -> Outcome:
        if precise is not None:
            return outcome_of(precise)
        doubles = [np.asarray(a) for a in arguments]
        doubles = [a.astype(_WIDE.get(_kind(a), a.dtype)) for a in doubles]
        return _compute(function, doubles, "cpu", "compiled", True)

    return Call(
        name,
        lambda: _compute(function, arguments, "cpu", "compiled", wide),
        {w: functools.partial(_compute, function, arguments, "xpu", w, wide) for w in ways},
        None if exact else of_doubles,
        each=each,
    )
