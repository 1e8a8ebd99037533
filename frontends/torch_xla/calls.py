"""Custom calls that tripont's compiler reads, for what no operation of torch_xla stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_UNTYPED = 1


def call(
    target: str,
    operands: Sequence[Any],
    results: Sequence[tuple[Sequence[int], Any]],
    attributes: Mapping[str, str | int | Sequence[int]],
) -> list[Any]:
    """The results of the custom call ``target``: of each, its shape and dtype are given.

    The attributes stand in the call's name, as the compiler reads them
    (``core/compiler/formats/ffi_attributes.py``): torch_xla takes two calls of one name with equal shapes for the same,
    whatever their configurations are, and gives the second one the first one's program.
    """
    import _XLAC

    text = ", ".join(f"{name} = {_written(value)}" for name, value in attributes.items())
    shapes = [list(shape) for shape, _ in results]
    dtypes = [dtype for _, dtype in results]
    made: list[Any] = _XLAC._xla_custom_call(
        list(operands), f"{target}$attributes{{{text}}}", shapes, dtypes, False, "", _UNTYPED, {}
    )
    return made


def _written(value: str | int | Sequence[int]) -> str:
    """An attribute as MLIR writes it."""
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, int):
        return f"{value} : i64"
    numbers = ", ".join(map(str, value))
    return f"array<i64: {numbers}>" if numbers else "array<i64>"
