"""A client that is to be one of several processes: what it tells and asks of the caller's key-value store.

The store is the test's, and answers for the other process. Nobody joins: every test ends in an error before that, as a
process is of one job for good.
"""

from __future__ import annotations

import pytest

from .c_api import Api, PjrtError
from .key_value_store import RefusedError, Store


def _join(api: Api, process: int, store: Store | None, **options: int) -> PjrtError:
    """The error of a client that is to be one of two processes."""
    values = {"prestart_worker": False, "node_id": process, "num_nodes": 2, **options}
    with pytest.raises(PjrtError) as error:
        api.call(
            "PJRT_Client_Create",
            create_options=api.named_values(values),
            num_options=len(values),
            **(store.fields() if store else {}),
        )
    return error.value


def _nothing(*_: object) -> str:
    raise RefusedError("DEADLINE_EXCEEDED", "nobody has told")


def test_without_a_store(api: Api) -> None:
    error = _join(api, 0, None)
    assert error.code == "INVALID_ARGUMENT"
    assert "key-value store" in error.message


@pytest.mark.parametrize(("process", "processes"), [(2, 2), (-1, 2), (0, 0), (0, 1 << 20)])
def test_numbers_that_are_none(api: Api, process: int, processes: int) -> None:
    error = _join(api, process, None, num_nodes=processes)
    assert error.code == "INVALID_ARGUMENT"
    assert f"num_nodes={processes}" in error.message


def test_a_process_that_does_not_come(api: Api) -> None:
    """The error says who is missing, how long it was waited for and how to wait longer."""
    store = Store(api, _nothing, lambda *_: None)
    error = _join(api, 0, store, collective_timeout=7)
    assert store.asked == ["tripont/process/1"]
    assert error.code == "DEADLINE_EXCEEDED"
    assert "process 1 of 2 has not joined" in error.message
    assert "TRIPONT_COLLECTIVE_TIMEOUT sets how long to wait for it, in seconds: 7" in error.message
    assert "nobody has told" in error.message


def test_process_0_does_not_come(api: Api) -> None:
    store = Store(api, _nothing, lambda *_: None)
    error = _join(api, 1, store)
    assert store.asked == ["tripont/job"]
    assert list(store.told) == ["tripont/process/1"]
    assert "process 0 of 2 has not joined" in error.message


@pytest.mark.parametrize("process", [0, 1])
def test_a_process_that_joins_twice(api: Api, process: int) -> None:
    """What it has told cannot be told again, and the others may have read it."""

    def put(key: str, _: str) -> None:
        raise RefusedError("ALREADY_EXISTS", f"{key} is there")

    error = _join(api, process, Store(api, lambda *_: "", put))
    assert error.code == "FAILED_PRECONDITION"
    assert f"process {process} of 2 has tried to join this job before" in error.message
    assert "start the job anew" in error.message
    assert "is there" in error.message


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ("", "process 1 runs another version of tripont"),
        ("1\t1\thost", "process 1 runs another version of tripont"),
        ("2\tmany\thost\tb\tc\t1\t1\t\t\t0\t", "process 1 has many devices"),
        ("2\t100000\thost\tb\tc\t1\t1\t\t\t0\t", "process 1 has 100000 devices"),
        ("2\t1\thost\tb\tc\t1\t1\t\t\t0\t\n2\t1", "the job has 3 processes, but `num_nodes` is 2"),
    ],
)
def test_what_another_process_tells_is_checked(api: Api, told: str, expected: str) -> None:
    error = _join(api, 0, Store(api, lambda *_: told, lambda *_: None))
    assert expected in error.message


def test_a_store_that_fails_without_a_reason(api: Api) -> None:
    def get(*_: object) -> str:
        raise RefusedError("INTERNAL", "")

    error = _join(api, 0, Store(api, get, lambda *_: None))
    assert error.code == "INTERNAL"
    assert "process 1 of 2 has not joined" in error.message
