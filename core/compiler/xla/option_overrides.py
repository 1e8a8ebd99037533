"""Options that a user gives one compilation by name, as ``jax.jit(f, compiler_options={"xla_...": value})``.

Most say how XLA should compile, and mean nothing here; a program that sets them should run as it does elsewhere. But a
name that nobody knows, or a value of the wrong type, is a mistake that the user should hear of. XLA knows both:
jaxlib's compiler is given the option with an empty program.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from typing import Final

from jaxlib import _jax

from ..ir.errors import CompileError
from .partition import xla_compiler

#: These are ours too: XLA must not write dumps of the empty program.
_DUMP: Final = "xla_dump_"
_EMPTY: Final = b"module { func.func @main() { return } }"
Value = str | bool | int | float


def check(proto: bytes, ours: Collection[str]) -> None:
    """Raise CompileError (INVALID_ARGUMENT) for an option in a CompileOptionsProto that is not one of ``ours`` and that
    XLA does not know.
    """
    if not proto:
        return
    for name, value in _jax.CompileOptions.ParseFromString(proto).env_option_overrides:
        if name not in ours and not name.startswith(_DUMP):
            said = _refusal(name, value)
            if said:
                raise CompileError("INVALID_ARGUMENT", said)


@functools.lru_cache(maxsize=256)
def _refusal(name: str, value: Value) -> str:
    """What XLA says against a value of an option; nothing if it takes it.

    The runtime hands values on as text, of which XLA takes an option's own type only.
    """
    texts = [_said_by_xla(name, v) for v in (value, *_meanings(value))]
    return texts[0] if all(texts) else ""


def _meanings(value: Value) -> list[Value]:
    if not isinstance(value, str):
        return []
    meanings: list[Value] = [value == "true"] if value in ("true", "false") else []
    for number in (int, float):
        try:
            meanings.append(number(value))
        except ValueError:
            continue
    return meanings


def _said_by_xla(name: str, value: Value) -> str:
    options = _jax.CompileOptions()
    options.env_option_overrides = [(name, value)]
    with xla_compiler(1) as client:
        try:
            client.compile_and_load(_EMPTY, _jax.DeviceList(tuple(client.devices())), options)
        except Exception as error:
            return str(error).removeprefix("INVALID_ARGUMENT: ")
    return ""
