"""Several buffers on the same memory (Buffer::Share): how long it lives, and who may overwrite it."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from tripont.core import _tripont

from tests.core.runtime import programs
from tests.core.runtime.conftest import status
from tests.core.runtime.test_donation import aligned, held_by_a_blocked_copy, load

X = np.arange(8, dtype=np.float32)


@pytest.fixture(params=[10.0, 1e9], ids=["inline", "stream"])
def double(request: pytest.FixtureRequest) -> Any:
    """A program that doubles its parameter, in place if it may."""
    return load(programs.in_place(8, cost_ns=request.param))


def bytes_in_use(device: Any) -> int:
    gc.collect()  # what errors' tracebacks hold
    device.synchronize()
    return int(device.memory_stats()["bytes_in_use"])


def test_a_share_is_the_same_array(device: Any) -> None:
    x = _tripont.Buffer.from_array(X.reshape(2, 4), device)
    allocations = device.memory_stats()["num_allocs"]
    y = x.share()
    assert device.memory_stats()["num_allocs"] == allocations
    assert y.pointer() == x.pointer()
    assert (y.shape, y.dtype, y.memory_kind) == (x.shape, x.dtype, x.memory_kind)
    assert y.device is x.device
    np.testing.assert_array_equal(y.numpy(), x.numpy())


@pytest.mark.parametrize("first", [0, 1, 2])
def test_memory_goes_with_the_last_share(device: Any, first: int) -> None:
    before = bytes_in_use(device)
    x = _tripont.Buffer.from_array(X, device)
    y = x.share()
    shares = [x, y, y.share()]
    del x, y
    shares.pop(first).delete()
    assert bytes_in_use(device) > before
    np.testing.assert_array_equal(shares[1].numpy(), X)
    shares.pop(0).delete()
    np.testing.assert_array_equal(shares[0].numpy(), X)
    shares.pop().delete()
    assert bytes_in_use(device) == before


def test_deleted_and_donated_arrays_are_not_shared(device: Any, double: Any) -> None:
    x = _tripont.Buffer.from_array(X, device)
    double.execute(device, [x])
    code, message = status(x.share)
    assert code == "INVALID_ARGUMENT"
    assert "donated" in message
    y = _tripont.Buffer.from_array(X, device)
    y.delete()
    assert "deleted" in status(y.share)[1]


def test_a_share_is_ready_when_the_content_is(device: Any) -> None:
    event = _tripont.testing.Event()
    x = _tripont.testing.pending_buffer(device, X, event)
    y = x.share()
    assert not y.is_ready
    event.set_ready()
    y.wait()
    np.testing.assert_array_equal(y.numpy(), X)


def test_a_share_fails_with_its_content(device: Any) -> None:
    event = _tripont.testing.Event()
    y = _tripont.testing.pending_buffer(device, X, event).share()
    event.set_error(13, "no such luck")
    assert "no such luck" in status(y.wait)[1]
    assert "no such luck" in status(y.share().wait)[1]


@pytest.mark.parametrize("donated", [0, 1])
def test_what_others_see_is_not_overwritten(device: Any, double: Any, donated: int) -> None:
    before = bytes_in_use(device)
    x = _tripont.Buffer.from_array(X, device)
    pair = [x, x.share()]
    (result,) = double.execute(device, [pair[donated]])
    assert pair[donated].is_deleted
    assert not pair[1 - donated].is_deleted
    result.wait()
    assert result.pointer() != pair[1 - donated].pointer()
    np.testing.assert_array_equal(result.numpy(), 2 * X)
    np.testing.assert_array_equal(pair[1 - donated].numpy(), X)
    for buffer in (result, pair[1 - donated]):
        buffer.delete()
    assert bytes_in_use(device) == before


def test_the_last_share_is_overwritten_in_place(device: Any, double: Any) -> None:
    before = bytes_in_use(device)
    x = _tripont.Buffer.from_array(X, device)
    address = x.pointer()
    y = x.share()
    z = y.share()
    x.delete()
    y.delete()
    for factor in (2, 4, 8):
        (z,) = double.execute(device, [z])
        z.wait()
        assert z.pointer() == address
        np.testing.assert_array_equal(z.numpy(), factor * X)
    z.delete()
    assert bytes_in_use(device) == before


def test_two_shares_without_their_source_do_not_overwrite_each_other(
    device: Any, double: Any
) -> None:
    x = _tripont.Buffer.from_array(X, device)
    y, z = x.share(), x.share()
    x.delete()
    (result,) = double.execute(device, [y])
    np.testing.assert_array_equal(result.numpy(), 2 * X)
    np.testing.assert_array_equal(z.numpy(), X)
    assert result.pointer() != z.pointer()
    device.synchronize()  # y's execution no longer reads
    address = z.pointer()
    (result,) = double.execute(device, [z])
    result.wait()
    assert result.pointer() == address


def test_a_share_whose_memory_is_still_read_is_not_overwritten(client: Any, device: Any) -> None:
    """The source was deleted, but a copy of it has not begun."""
    x = _tripont.Buffer.from_array(X, device)
    share = x.share()
    address = x.pointer()
    copy, gate, first = held_by_a_blocked_copy(client, x)
    x.delete()
    (result,) = load(programs.in_place(8)).execute(device, [share])
    gate.set_ready()
    np.testing.assert_array_equal(copy.numpy(), X)
    np.testing.assert_array_equal(result.numpy(), 2 * X)
    assert result.pointer() != address
    first.wait()


def test_shares_of_external_memory_never_write_to_it(device: Any, double: Any) -> None:
    array = aligned(X)
    deleted: list[int] = []
    x = _tripont.testing.external_buffer(device, array, lambda: deleted.append(1))
    share = x.share()
    x.delete()
    assert not deleted
    (result,) = double.execute(device, [share])
    np.testing.assert_array_equal(result.numpy(), 2 * X)
    np.testing.assert_array_equal(array, X)
    device.synchronize()
    assert deleted == [1]


def test_an_external_reference_to_a_share_keeps_the_memory(device: Any, double: Any) -> None:
    before = bytes_in_use(device)
    x = _tripont.Buffer.from_array(X, device)
    share = x.share()
    share.add_external_reference()
    x.delete()
    (result,) = double.execute(device, [share])
    result.wait()
    assert result.pointer() != share.pointer()
    result.delete()
    assert bytes_in_use(device) > before
    share.drop_external_reference()
    assert bytes_in_use(device) == before


def test_threads_that_share_delete_and_donate(device: Any) -> None:
    """Everybody finds the content that is theirs, and all memory comes back."""
    before = bytes_in_use(device)
    double = load(programs.in_place(8))
    barrier = threading.Barrier(3)

    def use(share: Any) -> None:
        barrier.wait()
        again = share.share()
        (result,) = double.execute(device, [share])
        np.testing.assert_array_equal(again.numpy(), X)
        (other,) = double.execute(device, [again])
        np.testing.assert_array_equal(result.numpy(), 2 * X)
        np.testing.assert_array_equal(other.numpy(), 2 * X)

    with ThreadPoolExecutor(2) as threads:
        for _ in range(200):
            x = _tripont.Buffer.from_array(X, device)
            uses = [threads.submit(use, x.share()) for _ in range(2)]
            barrier.wait()
            x.delete()
            for future in uses:
                future.result()
    del x, uses, future
    assert bytes_in_use(device) == before


def test_tickets(device: Any) -> None:
    before = bytes_in_use(device)
    x = _tripont.Buffer.from_array(X, device)
    address = x.pointer()
    ticket, other = _tripont.testing.deposit(x), _tripont.testing.deposit(x)
    assert ticket != other
    x.delete()
    with ThreadPoolExecutor(1) as thread:  # from any thread
        y = thread.submit(_tripont.testing.collect, ticket).result()
    assert y.pointer() == address
    np.testing.assert_array_equal(y.numpy(), X)
    code, message = status(lambda: _tripont.testing.collect(ticket))
    assert code == "NOT_FOUND"
    assert f"number {ticket}:" in message
    assert "deleted" in status(lambda: _tripont.testing.deposit(x))[1]
    y.delete()
    assert bytes_in_use(device) > before
    _tripont.testing.collect(other)
    assert bytes_in_use(device) == before


def test_an_offer_keeps_the_memory_until_the_call_ends(device: Any) -> None:
    before = bytes_in_use(device)
    buffers = [_tripont.Buffer.from_array(X, device)]

    def take_nothing() -> int:
        buffers.clear()
        return bytes_in_use(device)

    during = []
    assert _tripont.exchange.offer(buffers[0], lambda: during.append(take_nothing())) is None
    assert during[0] > before
    assert bytes_in_use(device) == before


def test_an_array_without_elements_needs_no_taker(device: Any) -> None:
    empty = _tripont.Buffer.from_array(X[:0], device)
    assert _tripont.exchange.offer(empty, lambda *arguments: arguments, 1, 2) == (1, 2)


def test_the_error_of_a_call_ends_captures_and_offers(device: Any) -> None:
    x = _tripont.Buffer.from_array(X, device)
    before = bytes_in_use(device)
    for call in (
        lambda fail: _tripont.exchange.capture(fail),
        lambda fail: _tripont.exchange.offer(x.share(), fail),
    ):
        with pytest.raises(ValueError, match="of the framework"):
            call(lambda: int("of the framework"))
        assert bytes_in_use(device) == before


def test_nothing_is_captured_where_nobody_asks(device: Any) -> None:
    assert _tripont.exchange.capture(lambda: _tripont.Buffer.from_array(X, device).numpy()) is None
