"""Operations between devices, of every element type, on two devices of one process.

tests/pjrt/test_collectives.py has every way of grouping devices; here are the element types. The target is the
suite's (TRIPONT_CONFORMANCE_TARGET).
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

from tests.conformance import device
from tests.conformance.programs import combine, function, tensor
from tests.conformance.random_programs.programs import differences_together, program
from tests.conformance.values import ordinary
from tests.pjrt.c_api import Api
from tests.pjrt.host import Client
from tests.pjrt.protos import compile_options
from tripont import library_path

_GROUP = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"
Arrays = list[np.ndarray]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    devices = Client(
        Api(library_path()), python=sys.executable, cache=False, num_devices=2, device=device.TARGET
    )
    yield devices
    devices.close()


def _run(client: Client, program: str, arrays: Arrays) -> Arrays:
    return [r for (r,) in _run_with(client, program, [[a] for a in arrays])]


def _run_with(client: Client, program: str, arrays: list[Arrays]) -> list[Arrays]:
    """Each device's results, for each device's arguments."""
    loaded = client.compile(program.encode(), options=compile_options([[0], [1]]))
    buffers = [
        [client.buffer(a, device=d) for a in own]
        for own, d in zip(arrays, client.devices, strict=True)
    ]
    outputs = client.execute(loaded, *buffers, events=True)
    results = [[client.get(o) for o in out] for out in outputs]
    client.destroy(*[b for own in buffers for b in own], *[o for out in outputs for o in out])
    client.destroy_executable(loaded)
    return results


def _sum(a: np.ndarray, b: np.ndarray, dtype: DType) -> np.ndarray:
    if dtype.kind == "pred":
        return a | b
    if dtype.is_integer:
        wide = a.astype(np.int64) + b.astype(np.int64)
        if dtype.bits < 8:
            half = 1 << (dtype.bits - 1)
            wide = (wide + half) % (2 * half) - half if dtype.is_signed else wide % (2 * half)
        return wide.astype(dtype.numpy)
    exact = a if dtype.is_complex or dtype.bits == 64 else a.astype(np.float64)
    return np.asarray(exact + b.astype(exact.dtype)).astype(dtype.numpy)


# name: (text of the operation, dims of the result, what the two devices get)
_OPERATIONS: dict[str, tuple[str, tuple[int, ...], Callable[[np.ndarray, np.ndarray, DType], Arrays]]] = {
    "all_reduce": (
        f'"stablehlo.all_reduce"(%0) <{{{_GROUP}}}> (BODY)',
        (4, 3),
        lambda a, b, t: [_sum(a, b, t)] * 2,
    ),
    "all_gather": (
        f'"stablehlo.all_gather"(%0) <{{all_gather_dim = 1 : i64, {_GROUP}}}>',
        (4, 6),
        lambda a, b, t: [np.concatenate([a, b], 1)] * 2,
    ),
    "reduce_scatter": (
        f'"stablehlo.reduce_scatter"(%0) <{{scatter_dimension = 0 : i64, {_GROUP}}}> (BODY)',
        (2, 3),
        lambda a, b, t: list(np.split(_sum(a, b, t), 2)),
    ),
    "all_to_all": (
        f'"stablehlo.all_to_all"(%0) <{{split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64, {_GROUP}}}>',
        (2, 6),
        lambda a, b, t: [np.concatenate([a[:2], b[:2]], 1), np.concatenate([a[2:], b[2:]], 1)],
    ),
    "collective_permute": (
        '"stablehlo.collective_permute"(%0) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}>',
        (4, 3),
        lambda a, b, t: [b, a],
    ),
    "collective_permute_one_way": (
        '"stablehlo.collective_permute"(%0) <{source_target_pairs = dense<[[0, 1]]> : tensor<1x2xi64>}>',
        (4, 3),
        lambda a, b, t: [np.zeros_like(a), a],
    ),
    "collective_broadcast": (
        '"stablehlo.collective_broadcast"(%0) <{replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>}>',
        (4, 3),
        lambda a, b, t: [b, b],
    ),
}  # fmt: skip

_ALL = list(itertools.product(_OPERATIONS, dtypes.ALL))
_FULL = os.environ.get("TRIPONT_CONFORMANCE") == "full"


@pytest.mark.parametrize(
    ("name", "dtype"),
    _ALL if _FULL else _ALL[::5],  # no multiple of the number of types: all of both come
    ids=lambda v: v if isinstance(v, str) else v.name,
)
def test_collective(client: Client, name: str, dtype: DType) -> None:
    operation, dims, expected = _OPERATIONS[name]
    reduction = "or" if dtype.kind == "pred" else "add"
    given, result = tensor(dtype, 4, 3), tensor(dtype, *dims)
    body = operation.replace("BODY", combine(reduction, dtype))
    text = function([given], [result], f"%r = {body} : ({given}) -> {result}")
    arrays = [ordinary(dtype, (4, 3), seed) for seed in "ab"]
    results = _run(client, text, arrays)
    for got, wanted in zip(results, expected(arrays[0], arrays[1], dtype), strict=True):
        assert got.dtype == wanted.dtype
        if dtype.is_integer:
            got, wanted = got.astype(np.int64), wanted.astype(np.int64)
        np.testing.assert_array_equal(got.view(np.uint8), wanted.copy().view(np.uint8))


def test_each_device_knows_its_number(client: Client) -> None:
    u = tensor("u32")
    body = f"%n = stablehlo.replica_id : {u}\n%m = stablehlo.partition_id : {u}\n%s = stablehlo.add %n, %m : {u}\n%r = stablehlo.add %s, %0 : {u}"
    results: list[Any] = _run(client, function([u], [u], body), [np.zeros((), np.uint32)] * 2)
    assert [int(r) for r in results] == [0, 1]


@pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2,
    reason="on one CPU StableHLO's interpreter runs one partition at a time, which waits for the other in vain",
)
@pytest.mark.parametrize("first", range(0, 400 if _FULL else 60, 20))
def test_random_programs(client: Client, first: int) -> None:
    """Each seed is a program (:mod:`tests.conformance.random_programs.collective`)."""
    for seed in range(first, first + 20):
        drawn = program(Random(seed), together=True)
        found = differences_together(drawn, functools.partial(_run_with, client))
        assert not found, f"seed {seed}:\n" + "\n".join(found) + f"\n{drawn.text}"
