"""What is said of arrays that cannot be exchanged as asked."""

from __future__ import annotations

from typing import Any


class ExchangeError(ValueError):
    """An array cannot be exchanged as asked. The message names its framework, shape and dtype, and what to do."""


class Description:
    """An array in words, which are found only when somebody reads them: most exchanges succeed."""

    __slots__ = ("_dtype", "_framework", "_shape")

    def __init__(self, framework: str, shape: Any, dtype: Any) -> None:
        self._framework = framework
        self._shape = shape
        self._dtype = dtype

    def __str__(self) -> str:
        return f"the {self._framework} of shape {tuple(self._shape)} and dtype {self._dtype}"


def needs_copy(what: Description, why: str) -> ExchangeError:
    """The error for ``copy=False`` where only a copy would do."""
    return ExchangeError(f"{what} cannot be shared without a copy: {why} (leave out copy=False)")
