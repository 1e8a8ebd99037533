"""``python cmake/arm64.py FOLDER``: an AArch64 machine in a folder, with this checkout's wheel installed in it.

It needs a Debian on x86-64 (12 or newer) and no rights: packages are downloaded by apt, whose state is kept in the
folder, and unpacked there; nothing is installed. After it the folder holds

* ``tools``: the cross compiler and QEMU's user-mode emulator, unless the system has them (``g++-aarch64-linux-gnu``,
  ``qemu-user-static``);
* ``root``: Debian's Python for arm64, with the libraries that it needs;
* ``venv``: an environment of that Python. ``venv/bin/python`` is a script that starts it in the emulator, so whatever
  starts ``sys.executable`` again does the same; QEMU_CPU names the CPU (``cortex-a72``, ``neoverse-n1``, ``max``).
  JAX and what else the tests need are AArch64 wheels of PyPI;
* ``dist``: the wheel of tripont, cross-compiled. The TensorFlow adapter is left out.

What is there is kept, except for the wheel, which is built anew (seconds, if little has changed).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from wheel_files import PLATFORMS

ROOT = Path(__file__).resolve().parent.parent
COMPILER = "aarch64-linux-gnu-g++"
EMULATORS = ("qemu-aarch64-static", "qemu-aarch64")
# Of which Debian's packages: for this machine, and for the other.
TOOLS = {COMPILER: "g++-aarch64-linux-gnu", EMULATORS[0]: "qemu-user-static"}
GUEST = ("python3", "libpython3-dev", "libstdc++6")
# What the programs of tests/arm64 import besides what the package asks for.
TEST_REQUIREMENTS = (
    "flax>=0.12",
    "hypothesis>=6.100",
    "optax>=0.2.5",
    "pytest>=8",
    "pytest-timeout>=2.3",
    "scikit-learn>=1.5",
)


def run(*command: str | Path, **variables: str) -> None:
    """Runs a command. Its output is shown only if it fails, which ends the program."""
    done = subprocess.run(
        [str(c) for c in command],
        env=os.environ | variables,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.stderr.write("\n".join(done.stdout.splitlines()[-40:]) + "\n")
        raise SystemExit(f"{' '.join(str(c) for c in command)} (exit status {done.returncode})")


def download(state: Path, packages: Sequence[str], options: Mapping[str, str]) -> list[Path]:
    """Debian's packages and what they depend on, by apt, which keeps its lists and archives in ``state``."""
    (state / "lists/partial").mkdir(parents=True, exist_ok=True)
    (state / "archives/partial").mkdir(parents=True, exist_ok=True)
    settings = {
        "APT::Install-Recommends": "0",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Dir::Cache::archives": f"{state}/archives",
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "Dir::State::Lists": f"{state}/lists",
        **options,
    }
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in settings.items())]
    run(*apt, "update")
    run(*apt, "install", "--yes", "--download-only", *packages)
    return sorted((state / "archives").glob("*.deb"))


def find_tool(folder: Path, *names: str) -> Path | None:
    """The first of the programs that the system or the folder ``tools`` has."""
    path = f"{os.environ.get('PATH', '')}:{folder / 'tools/usr/bin'}"
    return next((Path(found) for name in names if (found := shutil.which(name, path=path))), None)


def get_tools(folder: Path) -> tuple[Path, Path]:
    """The cross compiler and the emulator."""
    tools = folder / "tools"
    if not (find_tool(folder, COMPILER) and find_tool(folder, *EMULATORS)):
        print("downloading the cross compiler and the emulator (120 MB)", flush=True)
        for package in download(folder / "apt-tools", [*TOOLS.values()], {}):
            run("dpkg-deb", "-x", package, tools)
        for other in tools.glob("usr/bin/qemu-*"):  # of thirty machines
            if other.name not in EMULATORS:
                other.unlink()
        # The linker's script for the C library names it by its path in the system.
        script = tools / "usr/aarch64-linux-gnu/lib/libc.so"
        script.write_text(script.read_text().replace("/usr/aarch64-linux-gnu/lib/", ""))
    compiler, emulator = find_tool(folder, COMPILER), find_tool(folder, *EMULATORS)
    if compiler is None or emulator is None:
        raise SystemExit(
            f"apt-get install {' '.join(TOOLS.values())}, please: they cannot be unpacked into {tools}"
        )
    return compiler, emulator


def get_root(folder: Path) -> str:
    """Unpacks Debian's Python for arm64. Returns its version, such as ``3.11``."""
    root = folder / "root"
    if not root.is_dir():
        print("downloading Python for arm64 (40 MB)", flush=True)
        state = folder / "apt-root"
        state.mkdir(parents=True, exist_ok=True)
        (state / "status").touch()  # nothing is installed: all that Python depends on comes too
        machine = {
            "APT::Architecture": "arm64",
            "APT::Architectures::": "arm64",
            "Dir::State::status": f"{state}/status",
        }
        new = folder / "root.new"
        for package in download(state, GUEST, machine):
            run("dpkg-deb", "-x", package, new)
        new.rename(root)
    version = os.readlink(root / "usr/bin/python3").removeprefix("python")
    # pyconfig.h includes <aarch64-linux-gnu/python3.x/pyconfig.h>. The compiler has its own of the C library's headers.
    headers = folder / "headers"
    for name in (f"python{version}", f"aarch64-linux-gnu/python{version}"):
        if not (headers / name).is_symlink():
            (headers / name).parent.mkdir(parents=True, exist_ok=True)
            (headers / name).symlink_to(root / "usr/include" / name)
    return version


def make_environment(folder: Path, emulator: Path, version: str) -> Path:
    """``venv``, with all that tripont and the tests ask for. Returns its site-packages."""
    venv = folder / "venv"
    site = venv / f"lib/python{version}/site-packages"
    site.mkdir(parents=True, exist_ok=True)
    (venv / "bin").mkdir(exist_ok=True)
    (venv / "pyvenv.cfg").write_text(
        f"home = {folder}/root/usr/bin\ninclude-system-site-packages = false\n"
    )
    python = venv / "bin/python"
    python.write_text(
        f'#!/bin/sh\nexec {emulator} -0 "$0" -L {folder}/root {folder}/root/usr/bin/python{version} "$@"\n'
    )
    python.chmod(0o755)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [
        *project["dependencies"],
        *project["optional-dependencies"]["jax"],
        *TEST_REQUIREMENTS,
    ]
    # pip evaluates a requirement's condition for the machine that it runs on.
    wanted = [
        w.partition(";")[0].strip() for w in wanted if "platform_machine == 'x86_64'" not in w
    ]
    stamp, digest = venv / "requirements", hashlib.sha256("\n".join(wanted).encode()).hexdigest()
    if not stamp.is_file() or stamp.read_text() != digest:
        print("downloading AArch64 wheels (300 MB)", flush=True)
        shutil.rmtree(site)
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command += [
            "--no-compile",
            f"--target={site}",
            "--only-binary=:all:",
            "--implementation=cp",
        ]
        command += [f"--python-version={version}", *(f"--platform={p}_aarch64" for p in PLATFORMS)]
        run(*command, *wanted)
        stamp.write_text(digest)
    return site


def build_wheel(folder: Path, compiler: Path, version: str) -> Path:
    """The wheel, by scikit-build-core in this process's Python, whose version need not be the guest's."""
    print("building the wheel", flush=True)
    tag = f"cp{version.replace('.', '')}"
    dist = folder / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    toolchain = folder / "toolchain.cmake"
    text = f"""set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER "{str(compiler).replace("g++", "gcc")}")
set(CMAKE_CXX_COMPILER "{compiler}")
set(CMAKE_CXX_FLAGS_INIT "-isystem {folder}/headers")
set(Python_INCLUDE_DIR "{folder}/headers/python{version}")
set(PYTHON_MODULE_EXTENSION ".cpython-{tag[2:]}-aarch64-linux-gnu.so")
"""
    if not toolchain.is_file() or toolchain.read_text() != text:
        toolchain.write_text(text)
    settings = {
        "build-dir": str(folder / "build"),
        "cmake.args": f"-GNinja;-DCMAKE_TOOLCHAIN_FILE={toolchain};-DPython_EXECUTABLE={sys.executable}"
        ";-DTRIPONT_TENSORFLOW=OFF;-DTRIPONT_TESTING=ON",
        "wheel.tags": f"{tag}-{tag}-linux_aarch64",
    }
    build = "import ast, sys; from scikit_build_core.build import build_wheel; "
    build += "build_wheel(sys.argv[1], ast.literal_eval(sys.argv[2]))"
    dist.mkdir()
    libraries = folder / "tools/usr/lib/x86_64-linux-gnu"  # the assembler's
    path = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
    run(
        sys.executable, "-c", build, dist, repr(settings), LD_LIBRARY_PATH=str(libraries), PATH=path
    )
    (wheel,) = dist.glob("*.whl")
    return wheel


def install(wheel: Path, site: Path) -> None:
    """Unpacks the wheel, which has no files outside of site-packages."""
    shutil.rmtree(site / "tripont", ignore_errors=True)
    for old in site.glob("tripont-*.dist-info"):
        shutil.rmtree(old)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    compiler, emulator = get_tools(folder)
    version = get_root(folder)
    site = make_environment(folder, emulator, version)
    install(build_wheel(folder, compiler, version), site)
    run(folder / "venv/bin/python", "-c", "from tripont.core import _tripont")
    print(f"{folder}/venv/bin/python is Python {version} for AArch64", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
