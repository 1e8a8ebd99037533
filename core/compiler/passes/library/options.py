"""What the rules may rely on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tripont import library_path

from ...hlo import Instruction

# What oneDNN needs to multiply bf16 numbers (without avx512bf16 it still does, by converting inside the kernel).
_BF16_FEATURES: Final = frozenset(("avx512f", "avx512bw", "avx512vl", "avx512dq"))


@dataclass(frozen=True, slots=True)
class LibraryOptions:
    """``onednn``: whether the machine that runs the program has it; ``bf16``: whether its bf16 works on that CPU."""

    onednn: bool = True
    bf16: bool = True

    @staticmethod
    def of_host(cpu_features: frozenset[str] | None = None) -> LibraryOptions:
        """For programs that run here; ``cpu_features``: LLVM's names (None: those of a current server)."""
        bf16 = cpu_features is None or cpu_features >= _BF16_FEATURES
        return LibraryOptions(onednn=has_onednn(), bf16=bf16)


@dataclass(slots=True)
class Context:
    """What a rule may ask about the computation it works on.

    ``uses``: how often each instruction is used, those that rules made included. ``is_materialized``: whether the
    instruction that the rule looks at is written to memory whatever happens, for no user can be fused with it.
    """

    options: LibraryOptions
    uses: dict[Instruction, int]
    is_materialized: bool = False

    def is_only_use(self, operand: Instruction) -> bool:
        return self.uses.get(operand, 0) == 1


def has_onednn() -> bool:
    """Whether the runtime will find oneDNN: where core/runtime/library/onednn_api.h says it looks."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return False
    if chosen := os.environ.get("TRIPONT_ONEDNN_PATH"):
        path = Path(chosen)
        return (path / "libdnnl.so.3").exists() if path.is_dir() else path.exists()
    try:
        return (Path(library_path()).parent / "libdnnl.so.3").exists()
    except FileNotFoundError:
        return False
