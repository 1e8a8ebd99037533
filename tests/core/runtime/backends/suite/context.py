"""What a check is given: a client of the backend, and programs compiled for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tripont.core import _tripont

#: Bytes that all arrays of a process of the suite may take.
LIMIT = 512 << 20

_TYPES = {"float32": "f32", "float64": "f64", "int32": "i32", "int64": "i64", "uint8": "ui8"}


@dataclass(frozen=True)
class Context:
    """The client of a process for one backend. ``devices``: two at least."""

    client: Any

    @property
    def device(self) -> Any:
        return self.client.devices[0]

    @property
    def other(self) -> Any:
        return self.client.devices[1]

    def artifact(self, text: str) -> bytes:
        """What a StableHLO program compiles to, for this backend."""
        return _compile(self.client, text)

    def program(self, text: str) -> Any:
        return _tripont.Executable.load(self.artifact(text))

    def put(self, array: Any, device: Any = None, kind: str = "device") -> Any:
        return _tripont.Buffer.from_array(np.asarray(array), device or self.device, kind)

    def run(self, text: str, *arrays: Any) -> list[np.ndarray]:
        """The results of a program on arrays."""
        return list(self.program(text).run(self.device, [np.asarray(a) for a in arrays]))


@functools.cache
def _compile(client: Any, text: str) -> bytes:
    return bytes(client.compile(text.encode())[0])


def tensor(shape: tuple[int, ...], dtype: str = "float32") -> str:
    """StableHLO's type of an array."""
    return f"tensor<{''.join(f'{d}x' for d in shape)}{_TYPES[dtype]}>"


def error_of(call: Callable[[], Any]) -> tuple[str, str]:
    """Code and message of the error that ``call`` raises."""
    try:
        call()
    except _tripont.StatusError as error:
        return str(error.code), str(error)
    raise AssertionError("no error was raised")


def elementwise(operation: str, size: int, times: int = 1) -> str:
    """``operation`` of one operand, ``times`` in a row, on f32[size]. The operand may be donated."""
    type_ = tensor((size,))
    lines = [f"%x{i + 1} = stablehlo.{operation} %x{i} : {type_}" for i in range(times)]
    return (
        f"func.func @main(%x0: {type_} {{tf.aliasing_output = 0 : i32}}) -> {type_} {{\n"
        + "\n".join(lines)
        + f"\nreturn %x{times} : {type_}\n}}"
    )


#: y = x * 1.5 + 1 on a matrix large enough that it never runs on the caller's thread.
LARGE = (1024, 2048)
SCALE = """
func.func @main(%x: TYPE) -> TYPE {
  %a = stablehlo.constant dense<1.5> : TYPE
  %b = stablehlo.constant dense<1.0> : TYPE
  %0 = stablehlo.multiply %x, %a : TYPE
  %1 = stablehlo.add %0, %b : TYPE
  return %1 : TYPE
}""".replace("TYPE", tensor(LARGE))
