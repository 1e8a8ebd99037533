"""What is said of arrays that cannot be exchanged as asked."""

from __future__ import annotations

from typing import Any


class ExchangeError(ValueError):
    """An array cannot be exchanged as asked. The message names its framework, shape and dtype, and what to do."""


def describe(framework: str, shape: Any, dtype: Any) -> str:
    """The array in words."""
    return f"the {framework} of shape {tuple(shape)} and dtype {dtype}"


def needs_copy(what: str, why: str) -> ExchangeError:
    """The error for ``copy=False`` where only a copy would do."""
    return ExchangeError(f"{what} cannot be shared without a copy: {why} (leave out copy=False)")
