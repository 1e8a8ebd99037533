"""PJRT_Event: created, set, awaited, and told to callbacks."""

from __future__ import annotations

import ctypes
import threading

import pytest

from .c_api import Api, PjrtError

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def set_event(api: Api, event: int, code: str = "OK", message: bytes = b"") -> None:
    number = api.header.enums["PJRT_Error_Code"][f"PJRT_Error_Code_{code}"]
    api.call(
        "PJRT_Event_Set",
        event=event,
        error_code=number,
        error_message=message,
        error_message_size=len(message),
    )


def test_pending_then_ready(api: Api) -> None:
    event = api.call("PJRT_Event_Create").event
    assert not api.call("PJRT_Event_IsReady", event=event).is_ready
    with pytest.raises(PjrtError, match="not ready") as error:
        api.call("PJRT_Event_Error", event=event)
    assert error.value.code == "FAILED_PRECONDITION"
    set_event(api, event)
    assert api.call("PJRT_Event_IsReady", event=event).is_ready
    api.call("PJRT_Event_Error", event=event)
    api.call("PJRT_Event_Await", event=event)
    with pytest.raises(PjrtError, match="set already"):
        set_event(api, event)
    api.call("PJRT_Event_Destroy", event=event)


def test_error(api: Api) -> None:
    event = api.call("PJRT_Event_Create").event
    set_event(api, event, "DATA_LOSS", b"the disk is gone")
    assert api.call("PJRT_Event_IsReady", event=event).is_ready
    for function in ("PJRT_Event_Error", "PJRT_Event_Await", "PJRT_Event_Error"):
        with pytest.raises(PjrtError, match="the disk is gone") as error:
            api.call(function, event=event)
        assert error.value.code == "DATA_LOSS"
    api.call("PJRT_Event_Destroy", event=event)


def test_await_blocks_until_set(api: Api) -> None:
    event = api.call("PJRT_Event_Create").event
    timer = threading.Timer(0.05, set_event, (api, event))
    timer.start()
    api.call("PJRT_Event_Await", event=event)
    timer.join()
    api.call("PJRT_Event_Destroy", event=event)


@pytest.mark.parametrize("already_set", [False, True])
@pytest.mark.parametrize("code", ["OK", "INTERNAL"])
def test_callbacks(api: Api, already_set: bool, code: str) -> None:
    """Called once each, in order, also when the caller's handle is gone before the event is decided."""
    seen: list[tuple[int, str]] = []

    @CALLBACK
    def callback(error: int | None, user_arg: int | None) -> None:
        text = "OK" if error is None else api.take_error("callback", error).code
        seen.append((user_arg or 0, text))

    event = api.call("PJRT_Event_Create").event
    if already_set:
        set_event(api, event, code, b"no")
    for user_arg in (1, 2):
        api.call(
            "PJRT_Event_OnReady",
            event=event,
            callback=ctypes.cast(callback, ctypes.c_void_p).value,
            user_arg=user_arg,
        )
    assert len(seen) == (2 if already_set else 0)
    if not already_set:
        set_event(api, event, code, b"no")
    api.call("PJRT_Event_Destroy", event=event)
    assert seen == [(1, code), (2, code)]


def test_destroyed_while_it_is_set(api: Api) -> None:
    """A callback may destroy the event: the next one is still told its error."""
    seen: list[str] = []
    later: list[int] = []

    @CALLBACK
    def callback(error: int | None, user_arg: int | None) -> None:
        seen.append("OK" if error is None else api.take_error("callback", error).code)
        if user_arg == 1:
            api.call("PJRT_Event_Destroy", event=event)
            for _ in range(20):  # one of them takes the memory, if it is free
                later.append(api.call("PJRT_Event_Create").event)

    event = api.call("PJRT_Event_Create").event
    for user_arg in (1, 2):
        api.call(
            "PJRT_Event_OnReady",
            event=event,
            callback=ctypes.cast(callback, ctypes.c_void_p).value,
            user_arg=user_arg,
        )
    set_event(api, event, "DATA_LOSS", b"the disk is gone")
    assert seen == ["DATA_LOSS", "DATA_LOSS"]
    for other in later:
        api.call("PJRT_Event_Destroy", event=other)


def test_null_callback(api: Api) -> None:
    event = api.call("PJRT_Event_Create").event
    with pytest.raises(PjrtError, match="callback"):
        api.call("PJRT_Event_OnReady", event=event)
    api.call("PJRT_Event_Destroy", event=event)
