"""CPU models and features, in LLVM's names.

Code is generated for a *feature set*, not for a CPU name: the artifact lists the features, and any CPU that has
them may run it. The name only tunes instruction scheduling. The names and their features are in ``cpus.txt``, which
the runtime reads too.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from ...errors import invalid_argument

X86_64: Final = "x86_64"
AARCH64: Final = "aarch64"

# Features that generated code or a library makes use of, besides those of the models.
_ALSO_USEFUL: Final = frozenset(("amx-tile", "amx-bf16", "amx-int8"))
_SELF: Final = ("", "host", "native")


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
    present = {f for f, on in llvm.get_host_cpu_features().items() if on}
    if llvm.get_process_triple().startswith(X86_64):
        present &= known_features(X86_64)
    return name, tuple(sorted(present))


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


def vector_bytes(features: tuple[str, ...]) -> int:
    """The width of the widest vectors worth using."""
    present = frozenset(features)
    if present >= {"avx512f", "avx512bw", "avx512dq", "avx512vl"}:
        return 64
    if present >= {"avx2", "fma", "f16c"}:
        return 32
    return 16
