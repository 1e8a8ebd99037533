"""CPU models and features, in LLVM's names.

Code is generated for a *feature set*, not for a CPU name: the artifact lists the features, and any CPU that has
them may run it. The name only tunes instruction scheduling.
"""

from __future__ import annotations

from typing import Final

import llvmlite.binding as llvm

from ...errors import CompileError

_V2: Final = ("cx16", "popcnt", "sahf", "sse3", "sse4.1", "sse4.2", "ssse3")
_V3: Final = (*_V2, "avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe")
_V4: Final = (*_V3, "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl")
_ICELAKE: Final = (
    *_V4,
    "avx512bitalg", "avx512ifma", "avx512vbmi", "avx512vbmi2", "avx512vnni", "avx512vpopcntdq",
    "gfni", "vaes", "vpclmulqdq",
)  # fmt: skip

# Features that generated code can make use of: others (clzero, rdseed, ...) would only make artifacts pickier.
_USEFUL: Final = frozenset((*_ICELAKE, "avx512bf16", "avx512fp16", "avxvnni", "avxvnniint8", "amx-tile",
                            "amx-bf16", "amx-int8"))  # fmt: skip

_MODELS: Final[dict[str, tuple[str, ...]]] = {
    "x86-64-v2": _V2,
    "x86-64-v3": _V3,
    "x86-64-v4": _V4,
    "haswell": _V3,
    "skylake": _V3,
    "skylake-avx512": _V4,
    "cascadelake": (*_V4, "avx512vnni"),
    "icelake-server": _ICELAKE,
    "sapphirerapids": (*_ICELAKE, "avx512bf16", "avx512fp16", "avxvnni"),
    "znver2": _V3,
    "znver3": _V3,
    "znver4": (*_ICELAKE, "avx512bf16"),
    "znver5": (*_ICELAKE, "avx512bf16", "avxvnni"),
}

_AARCH64_MODELS: Final[dict[str, tuple[str, ...]]] = {
    "generic-aarch64": ("fp-armv8", "neon"),
    "neoverse-n1": ("dotprod", "fp-armv8", "fullfp16", "lse", "neon"),
    "apple-m1": ("dotprod", "fp-armv8", "fullfp16", "lse", "neon"),
}


def known_models() -> list[str]:
    """The names that ``describe`` takes besides ``"host"``."""
    return [*_MODELS, *_AARCH64_MODELS]


def is_aarch64(model: str) -> bool:
    return model in _AARCH64_MODELS


def detect() -> tuple[str, tuple[str, ...]]:
    """The name and the useful features of the CPU that runs this."""
    name = llvm.get_host_cpu_name()
    features = llvm.get_host_cpu_features()
    if llvm.get_process_triple().startswith("x86_64"):
        return name, tuple(sorted(f for f, on in features.items() if on and f in _USEFUL))
    return name, tuple(sorted(f for f, on in features.items() if on))


def describe(model: str) -> tuple[str, tuple[str, ...]]:
    """The name and features of ``model``, ``"host"`` for the CPU that runs this.

    Raises CompileError INVALID_ARGUMENT for a name that is not known.
    """
    if model in ("", "host", "native"):
        return detect()
    features = _MODELS.get(model) or _AARCH64_MODELS.get(model)
    if features is None:
        raise CompileError(
            "INVALID_ARGUMENT", f"unknown CPU {model!r}; known: host, {', '.join(known_models())}"
        )
    return model, tuple(sorted(features))


def vector_bytes(features: tuple[str, ...]) -> int:
    """The width of the widest vectors worth using."""
    present = frozenset(features)
    if present >= {"avx512f", "avx512bw", "avx512dq", "avx512vl"}:
        return 64
    if present >= {"avx2", "fma", "f16c"}:
        return 32
    return 16
