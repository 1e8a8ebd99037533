"""Which features a CPU has, and the table of names."""

from __future__ import annotations

import platform
import re
import struct
from pathlib import Path

import llvmlite.binding as llvm
import pytest
from tripont.core import _tripont
from tripont.core.compiler.targets.host import cpu

AT_HWCAP, AT_PAGESZ = 16, 6
# What Linux tells on a Neoverse V1, which has SVE: fp, asimd, atomics, fphp, asimdhp, asimddp, sve.
NEOVERSE_V1 = 1 << 0 | 1 << 1 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 20 | 1 << 22


@pytest.mark.parametrize(
    ("bits", "features"),
    [
        (NEOVERSE_V1, ("dotprod", "fp-armv8", "fullfp16", "lse", "neon")),
        (0b11, ("fp-armv8", "neon")),
    ],
)
def test_aarch64_features_are_those_of_the_auxiliary_vector(
    bits: int, features: tuple[str, ...]
) -> None:
    vector = struct.pack("<6Q", AT_PAGESZ, 65536, AT_HWCAP, bits, 0, 0)
    assert cpu.aarch64_features(vector) == features


def test_a_hidden_auxiliary_vector_leaves_what_every_cpu_has() -> None:
    assert cpu.aarch64_features(b"") == ("fp-armv8", "neon")


def test_a_real_cpu_of_arm_gets_only_features_that_the_runtime_knows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """LLVM's names for what /proc/cpuinfo lists (crypto, sve2-aes) went into artifacts, which the runtime refused."""
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "aarch64-unknown-linux-gnu")
    listed = dict.fromkeys(("crypto", "neon", "sve", "sve2-aes", "dotprod"), True)
    monkeypatch.setattr(llvm, "get_host_cpu_features", lambda: listed)
    _, features = cpu.detect()
    assert set(features) <= cpu.known_features(cpu.AARCH64)


@pytest.mark.parametrize("allowed", [True, False])
def test_tiles_are_used_only_where_the_system_allows_it(
    allowed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A CPU with AMX in a process that a seccomp filter, say, keeps from it."""
    tiles = {"amx-tile", "amx-bf16", "amx-int8"}
    monkeypatch.setattr(llvm, "get_process_triple", lambda: "x86_64-unknown-linux-gnu")
    monkeypatch.setattr(
        llvm, "get_host_cpu_features", lambda: dict.fromkeys(tiles | {"avx2"}, True)
    )
    monkeypatch.setattr(cpu, "_may_use_tiles", lambda: allowed)
    assert set(cpu.detect()[1]) == {"avx2"} | (tiles if allowed else set())


def test_compiler_and_runtime_see_the_same_cpu() -> None:
    architecture = cpu.X86_64 if platform.machine() == "x86_64" else cpu.AARCH64
    known = cpu.known_features(architecture)
    assert set(cpu.detect()[1]) == known & {*_tripont.cpu_features()}


@pytest.mark.parametrize("architecture", [cpu.X86_64, cpu.AARCH64])
def test_the_runtime_can_detect_every_feature_that_code_may_need(architecture: str) -> None:
    """Also those that this machine lacks: code for another one would be refused there."""
    root = Path(__file__).resolve().parents[4]
    source = (root / "core" / "runtime" / "cpu_info.cc").read_text()
    x86_64, aarch64 = source.rsplit("#elif defined(__aarch64__)", 1)
    part = x86_64 if architecture == cpu.X86_64 else aarch64
    assert cpu.known_features(architecture) <= set(re.findall(r'\{"([^"]+)", ', part))
