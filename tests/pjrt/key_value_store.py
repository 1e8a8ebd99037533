"""A key-value store for PJRT_Client_Create whose functions are a test's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from .c_api import Api

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_MAKE_ERROR = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t)


class RefusedError(Exception):
    """The store's error: the name of a PJRT_Error_Code, and a message."""


class Store:
    """A key-value store: ``get`` and ``put`` are the test's functions, and may raise RefusedError.

    ``get`` is told how long it may wait for a key, in seconds.
    """

    def __init__(
        self, api: Api, get: Callable[[str, float], str], put: Callable[[str, str], object]
    ) -> None:
        self.asked: list[str] = []
        self.told: dict[str, str] = {}
        self._kept: list[Any] = []
        structs, codes = api.header.structs, api.header.enums["PJRT_Error_Code"]

        def answered(args: Any, action: Callable[[], None]) -> int | None:
            try:
                action()
            except RefusedError as refused:
                name, text = refused.args
                make = _MAKE_ERROR.from_address(args.callback_error)
                return make(codes[f"PJRT_Error_Code_{name}"], text.encode(), len(text.encode()))
            return None

        def on_get(address: int) -> int | None:
            args = structs["PJRT_KeyValueGetCallback_Args"].from_address(address)

            def action() -> None:
                key = ctypes.string_at(args.key, args.key_size).decode()
                self.asked.append(key)
                value = ctypes.create_string_buffer(get(key, args.timeout_in_ms / 1000).encode())
                self._kept.append(value)
                args.value, args.value_size = ctypes.addressof(value), len(value) - 1

            return answered(args, action)

        def on_put(address: int) -> int | None:
            args = structs["PJRT_KeyValuePutCallback_Args"].from_address(address)

            def action() -> None:
                key = ctypes.string_at(args.key, args.key_size).decode()
                self.told[key] = ctypes.string_at(args.value, args.value_size).decode()
                put(key, self.told[key])

            return answered(args, action)

        self.get, self.put = _CALLBACK(on_get), _CALLBACK(on_put)

    def fields(self) -> dict[str, int | None]:
        return {
            "kv_get_callback": ctypes.cast(self.get, ctypes.c_void_p).value,
            "kv_put_callback": ctypes.cast(self.put, ctypes.c_void_p).value,
        }
