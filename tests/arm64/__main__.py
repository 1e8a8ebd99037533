"""``python -m tests.arm64 FOLDER [NAME...]``: tripont's AArch64 wheel, in the environment that cmake/arm64.py made.

Each check is a program that runs in the emulator, on one of three CPUs: without dot products (``cortex-a72``), with
them (``neoverse-n1``), and with all that QEMU knows, SVE included (``max``). NAME chooses checks whose names contain
it. Ends with 1 if one failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
# SVE as Neoverse V1 has it. With vectors of 512 bits and more, and with SME, OpenBLAS computes wrong products in
# QEMU 7.2, NumPy's own without tripont among them.
MAX = "max,sme=off,sve-max-vq=2"
# CPU of the emulator -> the CPU of cpus.txt that programs are compiled for on x86-64 to run there.
CPUS = {"cortex-a72": "generic-aarch64", "neoverse-n1": "neoverse-n1", MAX: "neoverse-n1"}
RUNTIME = (
    "execution",
    "donation",
    "events_and_streams",
    "sharing",
    "artifact_refusal",
    "fork",
    "views",
)
# It wants executions in microseconds: the emulator takes ten times as long.
TIMED = ("tests/core/runtime/test_execution.py::test_executing_is_cheap",)


@dataclass(frozen=True)
class Check:
    name: str
    cpu: str
    arguments: tuple[str, ...]  # of Python
    variables: dict[str, str] = field(default_factory=dict)


def pytest(*arguments: str) -> tuple[str, ...]:
    return ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=1500", *arguments)


def checks(artifacts: Path, losses: str) -> Iterator[Check]:
    yield Check("demo", "neoverse-n1", ("-m", "tests.arm64.demo", losses))
    for cpu in CPUS:
        name = cpu.partition(",")[0]
        yield Check(f"programs {name}", cpu, ("-m", "tests.cpus.sample"))
        yield Check(f"products {name}", cpu, ("-m", "tests.arm64.products"))
        yield Check(
            f"artifacts {name}",
            cpu,
            ("-m", "tests.arm64.artifacts", "run", str(artifacts / CPUS[cpu])),
        )
    refused = {"cortex-a72": "neoverse-n1", "neoverse-n1": "x86-64-v2"}
    for cpu, other in refused.items():
        arguments = ("-m", "tests.arm64.artifacts", "refuse", str(artifacts / other))
        yield Check(f"refusal {cpu}", cpu, arguments)
    behaving = {"TRIPONT_CPU": "cortex-a72"}
    yield Check("programs max as cortex-a72", MAX, ("-m", "tests.cpus.sample"), behaving)
    runtime = pytest(
        *(f"tests/core/runtime/test_{name}.py" for name in RUNTIME),
        *(f"--deselect={name}" for name in TIMED),
    )
    yield Check("runtime", "neoverse-n1", runtime)
    yield Check(
        "conformance",
        "neoverse-n1",
        pytest("tests/conformance/test_conformance.py"),
        {"TRIPONT_CONFORMANCE": "first"},
    )


def main(folder: Path, names: list[str]) -> int:
    folder = folder.resolve()
    python = folder / "venv/bin/python"
    # For tests that compile kernels of their own.
    compiler = {
        "PATH": f"{os.environ['PATH']}:{folder / 'tools/usr/bin'}",
        "LD_LIBRARY_PATH": str(folder / "tools/usr/lib/x86_64-linux-gnu"),
    }
    failed = []
    with tempfile.TemporaryDirectory() as temporary:
        artifacts = Path(temporary, "artifacts")
        for cpu in (*{*CPUS.values()}, "x86-64-v2"):
            command = [sys.executable, "-m", "tests.arm64.artifacts", "write", artifacts / cpu, cpu]
            subprocess.run(command, cwd=ROOT, check=True)
        demo = [sys.executable, "-m", "tests.arm64.demo", "cpu"]
        losses = subprocess.run(demo, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
        for check in checks(artifacts, losses.stdout.strip()):
            if names and not any(name in check.name for name in names):
                continue
            environment = {k: v for k, v in os.environ.items() if not k.startswith("TRIPONT_")}
            environment |= compiler
            environment |= {
                "QEMU_CPU": check.cpu,
                "TRIPONT_CACHE_DIR": f"{temporary}/cache",
                **check.variables,
            }
            print(f"{check.name}:", flush=True)
            start = time.monotonic()
            done = subprocess.run(
                [python, *check.arguments], env=environment, cwd=ROOT, check=False
            )
            if done.returncode:
                failed.append(check.name)
            print(
                f"{check.name}: exit status {done.returncode}, {time.monotonic() - start:.0f} s",
                flush=True,
            )
    for name in failed:
        print(f"FAILED {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
