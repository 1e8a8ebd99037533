"""The pass of this wing, and the law that it gives."""

from __future__ import annotations

from typing import Any, Final

from .. import laws
from .resolve import OPCODES, resolve_dynamic_sizes

#: Passes behind ``tokens_as_arrays``, before layouts are chosen.
PREPARATION: Final[tuple[Any, ...]] = (resolve_dynamic_sizes,)
LAWS: Final[dict[Any, laws.Law]] = {resolve_dynamic_sizes: laws.without(*OPCODES)}

__all__ = ["LAWS", "PREPARATION"]
