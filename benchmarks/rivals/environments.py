"""The rivals, and the environment that each of them lives in.

Environments are made with ``venv`` and pip under ``build/rivals``; ``environment.json`` in each says what
was installed and what was not, and why. An environment whose requirements changed is made anew.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDER: Final = ROOT / "build" / "rivals"
INSTALL_SECONDS: Final = 1800.0  # for one call of pip

# The packages of users' programs (benchmarks/complaints). MJX does not say that mujoco 4 is too new for it.
# The pins for jaxlib 0.4.31 are the releases of its summer (2024).
PACKAGES: Final = (
    "numpyro", "blackjax", "diffrax", "tinygp", "optax", "flax", "jraph", "jax-md", "jaxley",
    "mujoco==3.17.0", "mujoco-mjx==3.17.0", "keras", "quantecon",
)  # fmt: skip
PACKAGES_OF_2024: Final = (
    "numpyro==0.15.2", "blackjax==1.2.3", "diffrax==0.6.0", "equinox==0.11.8", "tinygp==0.3.0",
    "optax==0.2.3", "flax==0.9.0", "jraph==0.0.6.dev0", "jax-md==0.2.8", "jaxley==0.3.0",
    "mujoco==3.2.2", "mujoco-mjx==3.2.2", "dm-haiku==0.0.12", "keras==3.5.0", "quantecon==0.7.2",
)  # fmt: skip


@dataclass(frozen=True)
class Environment:
    """``requirements`` are needed; of ``alternatives`` the first that installs; ``packages`` are tried one by one.

    ``constraints`` bind the packages' own requirements. ``pythons``: the versions that will do, the best first.
    """

    name: str
    pythons: tuple[str, ...]
    requirements: tuple[str, ...]
    alternatives: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return FOLDER / self.name

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def record(self) -> Path:
        return self.folder / "environment.json"


@dataclass
class Installed:
    """What became of an environment. ``error`` is empty where the rival can run; ``missing``: package -> reason."""

    requirements: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True)
class Rival:
    """``framework``: which of a program's functions it runs, and how (rivals/frameworks.py)."""

    name: str
    framework: str
    environment: Environment
    variables: dict[str, str] = field(default_factory=dict)


_JAX_OF_OURS: Final = ("jax==0.10.2", "jaxlib==0.10.2")
_OURS = Environment(
    # The bindings in build/dev are for this Python.
    "tripont", (f"{sys.version_info.major}.{sys.version_info.minor}",),
    (*_JAX_OF_OURS, "llvmlite>=0.45", "scipy-openblas32>=0.3.30", "tbb>=2023,<2024", "rich>=13",
     "typer>=0.16"),
    packages=PACKAGES, constraints=_JAX_OF_OURS,
)  # fmt: skip
_JAX_0_4_31 = Environment(
    "jaxlib-0.4.31", ("3.11", "3.12"), ("jax==0.4.31", "jaxlib==0.4.31", "numpy<2.1", "scipy<1.15"),
    packages=PACKAGES_OF_2024, constraints=("jax==0.4.31", "jaxlib==0.4.31", "numpy<2.1", "scipy<1.15"),
)  # fmt: skip
_JAX_0_10_2 = Environment(
    "jaxlib-0.10.2", ("3.11", "3.12", "3.13"), _JAX_OF_OURS,
    packages=PACKAGES, constraints=_JAX_OF_OURS,
)  # fmt: skip
_JAX_NEWEST = Environment(
    "jaxlib-newest", ("3.14", "3.13", "3.12", "3.11"), ("jax", "jaxlib"), packages=PACKAGES
)
_TORCH = Environment(
    "torch", ("3.11", "3.12", "3.13"), ("numpy", "ml_dtypes"),
    alternatives=("torch==2.15.0+cpu", "torch==2.14.1+cpu", "torch==2.13.0+cpu", "torch"),
)  # fmt: skip
_SCIPY = Environment("scipy", ("3.13", "3.12", "3.11"), ("numpy", "scipy", "ml_dtypes"))
_ONNX = Environment(
    "onnxruntime", ("3.13", "3.12", "3.11"), ("numpy", "onnx", "onnxruntime", "ml_dtypes")
)
_TENSORFLOW = Environment("tensorflow", ("3.13", "3.12", "3.11"), ("tensorflow-cpu",))
# Built from source: some ten minutes of the CPU.
_LLAMA_CPP = Environment(
    "llama.cpp", ("3.11", "3.12", "3.13"), ("numpy", "ml_dtypes", "gguf", "llama-cpp-python")
)

OURS: Final = "tripont"
JAXLIBS: Final = ("jaxlib-0.4.31", "jaxlib-0.10.2", "jaxlib-newest")
_ONLY_CPU: Final = {"JAX_PLATFORMS": "cpu"}
# With these a process gives freed memory back at once, and holds what it uses: otherwise glibc keeps free memory at the
# top of its arenas, which malloc_trim leaves alone, and our allocator keeps free blocks. Fresh memory costs time, so
# nothing is timed in such a process.
EXACT_MEMORY: Final = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 << 10),
    "TRIPONT_ALLOCATOR_CACHE": "0",
}
RIVALS: Final = {
    rival.name: rival
    for rival in (
        Rival(
            OURS, "tripont", _OURS,
            {"JAX_PLATFORMS": "xpu,cpu", "TRIPONT_DEVICE": "host", "TRIPONT_CACHE": "0",
             "TRIPONT_JAX_KNOWN_AS": "cpu"},
        ),
        Rival("jaxlib-0.4.31", "jax", _JAX_0_4_31, _ONLY_CPU),
        Rival("jaxlib-0.10.2", "jax", _JAX_0_10_2, _ONLY_CPU),
        Rival("jaxlib-newest", "jax", _JAX_NEWEST, _ONLY_CPU),
        Rival("torch", "torch", _TORCH),
        Rival("torch.compile", "torch.compile", _TORCH),
        Rival("scipy", "numpy", _SCIPY),
        Rival("onnxruntime", "onnx", _ONNX),
        Rival("tensorflow", "tensorflow", _TENSORFLOW, {"TF_CPP_MIN_LOG_LEVEL": "2"}),
        Rival("llama.cpp", "llama.cpp", _LLAMA_CPP),
    )
}  # fmt: skip


def find_python(versions: Sequence[str]) -> str:
    """The first interpreter of one of the versions (as "3.13") that can make environments; empty if there is none."""
    script = ROOT / "cmake" / "find_python.sh"
    for version in versions:
        found = subprocess.run(
            ["bash", "-c", f'source "{script}"; PYTHON= find_python {version} {version}'],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if found.returncode == 0:
            return found.stdout.strip()
    return ""


def installed(environment: Environment) -> Installed | None:
    """What stands in the environment's folder; None if it is to be made."""
    try:
        record = Installed(**json.loads(environment.record.read_text()))
    except (OSError, ValueError, TypeError):
        return None
    return record if record.requirements == _wanted(environment) else None


def set_up(environment: Environment, tell: Callable[[str], None]) -> Installed:
    """Make the environment unless it stands. Failures are kept in the record: remove the
    environment's folder to try again.
    """
    if (record := installed(environment)) is not None:
        return record
    record = Installed(_wanted(environment))
    shutil.rmtree(environment.folder, ignore_errors=True)
    python = find_python(environment.pythons)
    if not python:
        record.error = f"no Python {' or '.join(environment.pythons)} was found"
    else:
        tell(f"{environment.name}: a new environment of {python}")
        subprocess.run([python, "-m", "venv", str(environment.folder)], check=True)
        _install(environment, record, tell)
    environment.folder.mkdir(parents=True, exist_ok=True)
    environment.record.write_text(json.dumps(asdict(record), indent=1))
    return record


def _wanted(environment: Environment) -> dict[str, Any]:
    return json.loads(json.dumps(asdict(environment)))


def _install(environment: Environment, record: Installed, tell: Callable[[str], None]) -> None:
    constraints = environment.folder / "constraints.txt"
    constraints.write_text("".join(f"{line}\n" for line in environment.constraints))
    if problem := _pip(environment, constraints, environment.requirements):
        record.error = problem
        return
    for alternative in environment.alternatives:
        tell(f"{environment.name}: {alternative}")
        record.error = _pip(environment, constraints, [alternative])
        if not record.error:
            break
    if record.error:
        return
    if environment.packages:
        tell(f"{environment.name}: {', '.join(environment.packages)}")
        if _pip(environment, constraints, environment.packages):
            for package in environment.packages:  # together they do not go: one after the other
                tell(f"{environment.name}: {package}")
                if problem := _pip(environment, constraints, [package]):
                    record.missing[re.split("[=<>]", package)[0]] = problem
    listing = subprocess.run(
        [environment.python, "-m", "pip", "list", "--format=json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    record.versions = {entry["name"]: entry["version"] for entry in json.loads(listing.stdout)}


def _pip(environment: Environment, constraints: Path, requirements: Sequence[str]) -> str:
    """Why the requirements could not be installed; empty if they were."""
    command = [
        str(environment.python), "-m", "pip", "install", "-q", "--disable-pip-version-check",
        "-c", str(constraints), *requirements,
    ]  # fmt: skip
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        return f"pip took longer than {INSTALL_SECONDS:.0f} s"
    if done.returncode == 0:
        return ""
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return (errors or done.stderr.strip().splitlines() or ["pip failed"])[-1]


def process_environment(rival: Rival, threads: int) -> dict[str, str]:
    """The environment of the rival's worker: the checkout on Python's path, every library's number of threads,
    nothing of the user's.
    """
    path = [str(ROOT)]
    if rival.name == OURS:
        path.append(str(ROOT / "build" / "dev"))
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("JAX_", "XLA_", "TRIPONT_", "PYTHON", "TF_", "KERAS_"))
    }
    count = str(threads)
    return inherited | {
        "PYTHONPATH": os.pathsep.join(path),
        "OMP_NUM_THREADS": count,
        "MKL_NUM_THREADS": count,
        "OPENBLAS_NUM_THREADS": count,
        "NPROC": count,  # XLA:CPU's pool
        "TRIPONT_NUM_THREADS": count,
        "KERAS_BACKEND": "jax",
        **rival.variables,
    }


def main(names: Sequence[str]) -> None:
    for environment in {
        rival.environment.name: rival.environment for rival in RIVALS.values()
    }.values():
        if not names or environment.name in names:
            record = set_up(environment, lambda text: print(text, flush=True))
            print(environment.name, record.error or "ok", record.missing, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
