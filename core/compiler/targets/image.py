"""The code of a compiled module: what targets make, the code cache keeps, and artifacts hold."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Image:
    """Position-independent code.

    ``symbols`` maps each external function to its offset in ``code``; ``imports`` are 8-byte slots in ``code``
    (function name, offset) that the loader fills with addresses. ``optimised_ir`` and ``assembly`` are there
    when asked for.
    """

    code: bytes
    symbols: dict[str, int]
    imports: list[tuple[str, int]] = field(default_factory=list)
    optimised_ir: str = ""
    assembly: str = ""
    files: dict[str, bytes] = field(default_factory=dict)  # more to dump, by suffix
