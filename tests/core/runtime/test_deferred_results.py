"""Results that are other results in another order (library call "transpose"): made when somebody reads them."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    Allocation,
    Executable,
    Kernel,
    LibraryCall,
    Operand,
    Value,
)
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from tests.core.runtime import programs
from tests.core.runtime.conftest import status
from tests.core.runtime.test_donation import load

DIMS, ORDER = (2, 3, 4), (2, 0, 1)
SHAPE, OTHER = Shape(dtypes.F32, DIMS), Shape(dtypes.F32, (4, 2, 3))
SIZE = SHAPE.bytes
X = np.arange(24, dtype=np.float32).reshape(DIMS)
ALLOCATIONS = (
    Allocation(ALLOCATION_PARAMETER, 0, SIZE),
    Allocation(ALLOCATION_RESULT, 0, SIZE),
    Allocation(ALLOCATION_RESULT, 1, SIZE),
)


def in_other_order(cost_ns: float = 10.0, **changes: Any) -> Executable:
    """x -> (x + 1, its transpose)."""
    source, result = (Operand(programs.whole(n, SIZE), s) for n, s in ((1, SHAPE), (2, OTHER)))
    add = (programs.whole(0, SIZE), programs.whole(1, SIZE))
    base = programs.executable(
        name="in_other_order",
        parameters=(Value(SHAPE),),
        results=(Value(SHAPE), Value(OTHER)),
        allocations=ALLOCATIONS,
        thunks=(
            Kernel(programs.function("add_one"), add, 24, 1 << 40, cost_ns),
            LibraryCall("transpose", (source,), (result,), {"permutation": ORDER}, 100.0, debug=-1),
        ),
    )
    return replace(base, **changes)


@pytest.fixture(params=[10.0, 1e9], ids=["inline", "stream"])
def program(request: pytest.FixtureRequest) -> Any:
    return load(in_other_order(request.param))


@pytest.fixture
def results(program: Any, device: Any) -> list[Any]:
    return list(program.execute(device, [_tripont.Buffer.from_array(X, device)]))


def allocations(device: Any) -> int:
    device.synchronize()
    return int(device.memory_stats()["num_allocs"])


def bytes_in_use(device: Any) -> int:
    gc.collect()
    device.synchronize()
    return int(device.memory_stats()["bytes_in_use"])


def test_it_has_no_memory_until_it_is_read(device: Any, program: Any) -> None:
    x = _tripont.Buffer.from_array(X, device)
    before = allocations(device)
    first, second = program.execute(device, [x])
    second.wait()
    assert second.is_ready
    assert (second.shape, second.dtype, second.memory_kind) == (OTHER.dims, "f32", "device")
    assert allocations(device) == before + 1
    np.testing.assert_array_equal(second.numpy(), (X + 1).transpose(ORDER))
    assert allocations(device) == before + 2
    np.testing.assert_array_equal(first.numpy(), X + 1)
    np.testing.assert_array_equal(second.numpy(), (X + 1).transpose(ORDER))
    assert allocations(device) == before + 2


def test_memory_goes_with_both(device: Any, program: Any) -> None:
    x = _tripont.Buffer.from_array(X, device)
    before = bytes_in_use(device)
    for read in (False, True):
        first, second = program.execute(device, [x])
        first.delete()
        if read:
            np.testing.assert_array_equal(second.numpy(), (X + 1).transpose(ORDER))
        assert bytes_in_use(device) > before
        second.delete()
        assert bytes_in_use(device) == before
        assert "deleted" in status(second.numpy)[1]


def test_a_donated_source_is_not_overwritten(device: Any, results: list[Any]) -> None:
    first, second = results
    in_place = programs.in_place(24)
    in_place = replace(in_place, parameters=(Value(SHAPE),), results=(Value(SHAPE),))
    (doubled,) = load(in_place).execute(device, [first])
    np.testing.assert_array_equal(second.numpy(), (X + 1).transpose(ORDER))
    np.testing.assert_array_equal(doubled.numpy(), 2 * (X + 1))


@pytest.mark.parametrize("cost_ns", [10.0, 1e9], ids=["inline", "stream"])
def test_a_program_reads_it(device: Any, results: list[Any], cost_ns: float) -> None:
    reader = replace(
        programs.unary("add_one", 24, cost_ns=cost_ns),
        parameters=(Value(OTHER),),
        results=(Value(OTHER),),
    )
    (y,) = load(reader).execute(device, [results[1]])
    np.testing.assert_array_equal(y.numpy(), (X + 2).transpose(ORDER))


def test_it_can_be_donated(device: Any, results: list[Any]) -> None:
    in_place = replace(programs.in_place(24), parameters=(Value(OTHER),), results=(Value(OTHER),))
    (y,) = load(in_place).execute(device, [results[1]])
    np.testing.assert_array_equal(y.numpy(), 2 * (X + 1).transpose(ORDER))
    np.testing.assert_array_equal(results[0].numpy(), X + 1)
    assert "donated" in status(results[1].numpy)[1]


def test_shares_copies_and_addresses_of_it(client: Any, results: list[Any]) -> None:
    second = results[1]
    share = second.share()
    assert share.pointer() == second.pointer() != results[0].pointer()
    copy = second.copy_to(client.devices[1])
    second.delete()
    for array in (share, copy):
        np.testing.assert_array_equal(array.numpy(), (X + 1).transpose(ORDER))


def test_somebody_outside_asks_for_the_address(device: Any, results: list[Any]) -> None:
    assert results[1].pointer() == 0
    results[1].add_external_reference()
    assert results[1].pointer() != 0
    results[1].drop_external_reference()


def test_it_is_read_before_the_program_has_run(device: Any, program: Any) -> None:
    event = _tripont.testing.Event()
    x = _tripont.testing.pending_buffer(device, X, event)
    _, second = program.execute(device, [x])
    share = second.share()  # asks for the content
    assert not share.is_ready
    assert not second.is_ready
    timer = threading.Timer(0.05, event.set_ready)
    timer.start()
    np.testing.assert_array_equal(second.numpy(), (X + 1).transpose(ORDER))
    np.testing.assert_array_equal(share.numpy(), (X + 1).transpose(ORDER))
    timer.join()


@pytest.mark.parametrize("early", [False, True], ids=["read after", "read before"])
def test_the_error_of_its_program_is_its_own(device: Any, program: Any, early: bool) -> None:
    event = _tripont.testing.Event()
    x = _tripont.testing.pending_buffer(device, X, event)
    _, second = program.execute(device, [x])
    if early:
        second.add_external_reference()
    event.set_error(13, "no such luck")
    for read in (second.wait, second.numpy):
        assert status(read) == ("INTERNAL", "INTERNAL: no such luck")


def test_many_threads_read_it_and_one_makes_it(device: Any, program: Any) -> None:
    x = _tripont.Buffer.from_array(X, device)
    with ThreadPoolExecutor(8) as pool:
        for _ in range(50):
            before = allocations(device)
            _, second = program.execute(device, [x])
            for array in pool.map(lambda _, b=second: b.numpy(), range(8)):
                np.testing.assert_array_equal(array, (X + 1).transpose(ORDER))
            assert allocations(device) == before + 2


@pytest.mark.parametrize(
    "changes",
    [
        {"results": (Value(SHAPE), Value(Shape(dtypes.F32, (4, 6))))},
        {"results": (Value(Shape(dtypes.F32, (24,))), Value(OTHER))},
        {
            "parameters": (Value(SHAPE), Value(OTHER)),
            "allocations": (*ALLOCATIONS[:2], replace(ALLOCATIONS[2], aliased_parameter=1)),
            "donatable_parameters": (1,),
        },
    ],
    ids=["result of another shape", "source of another shape", "in the memory of a parameter"],
)
def test_what_cannot_wait_is_done_at_once(device: Any, changes: dict[str, Any]) -> None:
    changed = in_other_order(**changes)
    arrays = [X, np.zeros(OTHER.dims, np.float32)][: len(changed.parameters)]
    results = load(changed).execute(device, [_tripont.Buffer.from_array(a, device) for a in arrays])
    assert results[1].pointer() != 0
    np.testing.assert_array_equal(results[1].numpy().ravel(), (X + 1).transpose(ORDER).ravel())


def test_what_another_thunk_reads_is_done_at_once(device: Any) -> None:
    base = in_other_order()
    again = (programs.whole(2, SIZE), programs.whole(3, SIZE))
    program = replace(
        base,
        results=(*base.results, Value(OTHER)),
        allocations=(*ALLOCATIONS, Allocation(ALLOCATION_RESULT, 2, SIZE)),
        thunks=(*base.thunks, Kernel(programs.function("add_one"), again, 24, 1 << 40, 10.0)),
    )
    results = load(program).execute(device, [_tripont.Buffer.from_array(X, device)])
    assert results[1].pointer() != 0
    np.testing.assert_array_equal(results[2].numpy(), (X + 2).transpose(ORDER))


@pytest.mark.parametrize("permutation", [(0, 1, 2), (2, 0), (2, 2, 1), (2, 0, 3), (2, -1, 1)])
def test_a_permutation_that_does_not_fit_is_refused(permutation: tuple[int, ...]) -> None:
    program = in_other_order()
    call = replace(program.thunks[1], attributes={"permutation": permutation})  # type: ignore[type-var]
    code, message = status(lambda: load(replace(program, thunks=(program.thunks[0], call))))
    assert code == "INVALID_ARGUMENT"
    assert "permutation does not make f32[4,2,3] of f32[2,3,4]" in message
