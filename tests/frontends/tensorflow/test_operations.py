"""Every row of the table on XPU: eagerly, in a tf.function, and with jit_compile, against the CPU device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from . import (
    cases_array,
    cases_image,
    cases_linalg,
    cases_lists,
    cases_math,
    cases_nn,
    cases_placement,
    cases_quantized,
    cases_random,
    cases_raw,
)
from .cases import Case, difference

TABLES = {
    "math": cases_math.TABLE,
    "array": cases_array.TABLE,
    "nn": cases_nn.TABLE,
    "linalg": cases_linalg.TABLE,
    "image": cases_image.TABLE,
    "random": cases_random.TABLE,
    "placement": cases_placement.TABLE,
    "raw": cases_raw.TABLE,
    "quantized": cases_quantized.TABLE,
    "lists": cases_lists.TABLE,
}
ALL = {f"{family}-{case.name}": case for family, table in TABLES.items() for case in table.cases}
# One dtype of a row is enough for the ways to call a function; every dtype runs eagerly.
FIRST = {f"{f}-{case.name}": case for f, table in TABLES.items() for case in table.first_dtypes()}
# A function that computes has the kernels of the eager call: every fourth one shows that it is placed. All of those run
# whose place, state or lists a graph treats in its own way.
_COMPUTES = ("math", "array", "nn", "linalg", "image", "quantized")
FUNCTIONS = [
    pytest.param(name, marks=pytest.mark.nightly if n % 4 and name.startswith(_COMPUTES) else [])
    for n, name in enumerate(FIRST)
]
# And the device compiles the eager call of such an operation from what tf2xla makes of it, as jit_compile does. Those
# that run are others than the functions.
JIT_COMPILED = [
    pytest.param(
        name, marks=pytest.mark.nightly if (n + 2) % 4 and name.startswith(_COMPUTES) else []
    )
    for n, name in enumerate(FIRST)
    if FIRST[name].jit
]
OTHER_DTYPES = [pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in FIRST]


def run(function: Callable[..., Any], case: Case, device: str) -> list[np.ndarray]:
    """The results on a device, with the arguments put there."""
    with tf.device(device):
        arguments = [tf.constant(a) for a in case.arguments()]
        results = tf.nest.flatten(function(*arguments), expand_composites=True)
    arrays = [r.numpy() if hasattr(r, "numpy") else np.asarray(r) for r in results if r is not None]
    return list(case.results(arrays)) if case.results else arrays


@cache
def expected(case: Case) -> list[np.ndarray]:
    function = case.function
    if case.like_xla:
        function = tf.function(function, autograph=False, jit_compile=True)
    return run(function, case, "CPU:0")


def compare(actual: list[np.ndarray], case: Case) -> None:
    wanted = expected(case)
    assert len(actual) == len(wanted)
    for number, (a, e) in enumerate(zip(actual, wanted, strict=True)):
        if case.compare:
            wrong = difference(a, e, case.tolerance)
            assert not wrong, f"result {number}: {wrong}"
        else:
            assert (a.dtype, a.shape) == (e.dtype, e.shape)


@pytest.mark.parametrize("name", [*FIRST, *OTHER_DTYPES])
def test_eager(name: str) -> None:
    case = ALL[name]
    compare(run(case.function, case, "XPU:0"), case)


@pytest.mark.slow
@pytest.mark.parametrize("name", FUNCTIONS)
def test_function(name: str) -> None:
    case = FIRST[name]
    compare(run(tf.function(case.function, autograph=False), case, "XPU:0"), case)


@pytest.mark.parametrize("name", JIT_COMPILED)
def test_jit_compiled(name: str) -> None:
    case = FIRST[name]
    compare(run(tf.function(case.function, autograph=False, jit_compile=True), case, "XPU:0"), case)


def _rows() -> Iterator[Case]:
    for table in TABLES.values():
        yield from table.first_dtypes()


def test_the_table_is_large() -> None:
    assert len(list(_rows())) >= 400
