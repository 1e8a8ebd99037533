"""CPU models and features, in LLVM's names.

Code is generated for a *feature set*, not for a CPU name: the artifact lists the features, and any CPU that has
them may run it. The name only tunes instruction scheduling. The names and their features are in ``cpus.txt``, which
the runtime reads too.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from ...ir.errors import invalid_argument

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"

# Features that generated code or a library makes use of, besides those of the models.
_ALSO_USEFUL: Final = frozenset(("amx-tile", "amx-bf16", "amx-int8"))
_TILES: Final = "amx-tile"
_SELF: Final = ("", "host", "native")
# Every AArch64 CPU has these under Linux.
_ALWAYS_AARCH64: Final = frozenset(("fp-armv8", "neon"))
# Feature -> the entry of the auxiliary vector that tells it (AT_HWCAP) and its bit, as in core/runtime/cpu_info.cc.
# Source: Linux, Documentation/arch/arm64/elf_hwcaps.rst.
_AT_HWCAP: Final = 16
_HWCAP: Final = {"lse": (_AT_HWCAP, 8), "fullfp16": (_AT_HWCAP, 9), "dotprod": (_AT_HWCAP, 20)}


@functools.cache
def _models() -> dict[str, dict[str, tuple[str, ...]]]:
    """Architecture -> name -> sorted features."""
    models: dict[str, dict[str, tuple[str, ...]]] = {}
    section: dict[str, tuple[str, ...]] = {}
    for line in Path(__file__).with_name("cpus.txt").read_text().splitlines():
        line = line.partition("#")[0].strip()
        if line.startswith("["):
            section = models.setdefault(line.strip("[]"), {})
        elif line:
            name, _, words = line.partition(":")
            features: set[str] = set()
            for word in words.split():
                features.update(section.get(word, (word,)))
            section[name] = tuple(sorted(features))
    return models


def known_models() -> list[str]:
    """The names that ``describe`` takes besides ``"host"``."""
    return [name for names in _models().values() for name in names]


def known_features(architecture: str) -> frozenset[str]:
    """The features that a name may be followed by."""
    features = {f for names in _models()[architecture].values() for f in names}
    return frozenset(features | _ALSO_USEFUL if architecture == X86_64 else features)


def is_aarch64(model: str) -> bool:
    return model.partition("+")[0] in _models()[AARCH64]


def detect() -> tuple[str, tuple[str, ...]]:
    """The name and the useful features of the CPU that runs this."""
    name = llvm.get_host_cpu_name()
    if llvm.get_process_triple().startswith(X86_64):
        present = {f for f, on in llvm.get_host_cpu_features().items() if on}
        if _TILES in present and not _may_use_tiles():
            present = {f for f in present if not f.startswith("amx-")}
        return name, tuple(sorted(present & known_features(X86_64)))
    # LLVM reads /proc/cpuinfo, which is another machine's under an emulator, and has names that the runtime has not.
    return name, aarch64_features(_auxiliary_vector())


def _may_use_tiles() -> bool:
    """Whether Linux lets this process use AMX's registers; core/runtime/cpu_info.cc asks in the same words."""
    arch_prctl, request_permission, tile_data = 158, 0x1023, 18
    return bool(ctypes.CDLL(None).syscall(arch_prctl, request_permission, tile_data) == 0)


def aarch64_features(auxiliary_vector: bytes) -> tuple[str, ...]:
    """The useful features that a Linux kernel tells a process in the auxiliary vector: pairs of 64-bit integers."""
    values = dict(struct.iter_unpack("<QQ", auxiliary_vector))
    found = {f for f, (entry, bit) in _HWCAP.items() if values.get(entry, 0) >> bit & 1}
    return tuple(sorted(_ALWAYS_AARCH64 | found))


def _auxiliary_vector() -> bytes:
    """This process's auxiliary vector; empty where the system hides it."""
    try:
        return Path("/proc/self/auxv").read_bytes()
    except OSError:
        return b""


def describe(model: str) -> tuple[str, tuple[str, ...]]:
    """The name and features of ``model``: ``"host"`` for the CPU that runs this, or a name of ``cpus.txt``, with more
    features behind it if need be (``"x86-64-v3+avxvnni"``).

    Raises CompileError INVALID_ARGUMENT for a name or a feature that is not known.
    """
    if model in _SELF:
        return detect()
    name, *more = model.split("+")
    for architecture, models in _models().items():
        if name not in models:
            continue
        if unknown := [f for f in more if f not in known_features(architecture)]:
            known = ", ".join(sorted(known_features(architecture)))
            raise invalid_argument(
                f"unknown CPU {model!r}: {name} is known, but the feature {unknown[0]!r} is not; known: {known}"
            )
        return model, tuple(sorted({*models[name], *more}))
    raise invalid_argument(f"unknown CPU {model!r}; known: host, {', '.join(known_models())}")


def tuning(model: str) -> tuple[str, ...]:
    """LLVM's features that say nothing of what ``model`` can do, but of what it is fast at, and that LLVM does not know
    of it.
    """
    # Reading eight elements by one instruction: a search in a small table (histogram_100 of benchmarks.rivals) takes
    # 0.8 times as long as with eight loads.
    return ("fast-gather",) if model.partition("+")[0] == "znver3" else ()


def vector_bytes(features: tuple[str, ...]) -> int:
    """The width of the widest vectors worth using."""
    present = frozenset(features)
    if present >= {"avx512f", "avx512bw", "avx512dq", "avx512vl"}:
        return 64
    if present >= {"avx2", "fma", "f16c"}:
        return 32
    return 16
