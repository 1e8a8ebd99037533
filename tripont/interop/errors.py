"""What is said of arrays that cannot be exchanged as asked."""

from __future__ import annotations

from typing import Any


class ExchangeError(ValueError):
    """An array cannot be exchanged as asked. The message names its framework, shape and dtype, and what to do."""


def in_words(framework: str, shape: Any, dtype: Any) -> str:
    """An array, as messages name it."""
    try:
        known = tuple(shape)
    except (TypeError, ValueError):  # a rank that TensorFlow does not know
        known = shape
    return f"the {framework} of shape {known} and dtype {dtype}"


def needs_copy(what: object, why: str) -> ExchangeError:
    """The error for ``copy=False`` where only a copy would do. ``what``: the array in words."""
    return ExchangeError(f"{what} cannot be shared without a copy: {why} (leave out copy=False)")
