"""Results on disk, a file for each program and CPU, so that a run goes on where the last one stopped."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .environments import FOLDER, ROOT
from .program import Program


def cpu_name() -> str:
    """As /proc/cpuinfo has it, with family and model: some hypervisors hide the name."""
    entries: dict[str, str] = {}
    with open("/proc/cpuinfo") as file:
        for line in file:
            key, _, value = line.partition(":")
            entries.setdefault(key.strip(), value.strip())
    name = entries.get("model name", entries.get("CPU part", "unknown"))
    model = (
        f", family {entries['cpu family']} model {entries['model']}" if "model" in entries else ""
    )
    return name + model


def instructions() -> str:
    """The widest vector instructions among those that matter to products."""
    with open("/proc/cpuinfo") as file:
        flags = next((line.split() for line in file if line.startswith(("flags", "Features"))), [])
    known = (
        "avx2",
        "avx512f",
        "avx512_bf16",
        "avx512_vnni",
        "avx_vnni",
        "avx512_fp16",
        "amx_tile",
        "asimd",
        "sve",
    )
    return ", ".join(flag for flag in known if flag in flags)


def commit() -> str:
    found = subprocess.run(
        ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=10"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return found.stdout.strip() or "unknown"


def digest(program: Program) -> str:
    """The digest of the file that the program stands in: a result of an older file is measured again."""
    module = sys.modules[program.module]
    return hashlib.sha256(inspect.getsource(module).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Store:
    folder: Path

    @staticmethod
    def of_this_machine(clock: str = "wall") -> Store:
        """Times of another clock are results of their own."""
        words = re.sub(r"[^a-z0-9]+", "-", cpu_name().lower()).strip("-")
        return Store(FOLDER / ("results" if clock == "wall" else f"results-{clock}") / words)

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.json"

    def read(self, name: str) -> dict[str, Any] | None:
        try:
            result: dict[str, Any] = json.loads(self.path(name).read_text())
        except (OSError, ValueError):
            return None
        return result

    def write(self, name: str, result: dict[str, Any]) -> None:
        """In one piece: a run that is interrupted leaves the old file or the new one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.path(name).with_suffix(f".{os.getpid()}")
        temporary.write_text(json.dumps(result, indent=1))
        temporary.rename(self.path(name))

    def rows(self, program: Program, threads: int) -> dict[str, Any]:
        """Rival -> its result of the program as it is now, on as many threads."""
        found = self.read(program.name)
        if found is None or found["digest"] != digest(program) or found["threads"] != threads:
            return {}
        rows: dict[str, Any] = found["rivals"]
        return rows

    def missing(self, program: Program, names: list[str], threads: int) -> list[str]:
        """The rivals among ``names`` that have no such result."""
        rows = self.rows(program, threads)
        return [name for name in names if name not in rows]
