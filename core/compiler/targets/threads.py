"""Numbers of threads in the options of a compilation."""

from __future__ import annotations

from typing import Final

from ..ir.errors import invalid_argument

_MOST: Final = 1 << 16


def read_count(name: str, text: str, least: int, least_means: str = "") -> int:
    """The number of threads that ``text``, the value of the option ``name``, asks for: ``least`` or more.

    Raises CompileError INVALID_ARGUMENT for any other text. ``least_means``: what the error says of ``least``.
    """
    # Python reads no number of thousands of digits.
    if text.isascii() and text.isdecimal() and len(text) < 100 and least <= int(text) <= _MOST:
        return int(text)
    meaning = f" ({least_means})" if least_means else ""
    raise invalid_argument(
        f"the compiler option {name} is {text!r}, which is not a number from {least}{meaning} to {_MOST}"
    )
