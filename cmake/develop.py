"""The development install: Python files live from the checkout, C++ rebuilt by one command.

``python cmake/develop.py`` (run by ``make dev`` with the environment's Python) makes

* ``build/dev/tripont``: the package as pyproject.toml lays it out, as links to the checkout's folders;
* ``build/cmake``: the CMake build, whose libraries are put into ``build/dev/tripont``;
* in the environment: ``tripont.pth``, which names ``build/dev``; ``tripont-<version>.dist-info`` with the entry
  points, so that JAX finds the plugin and the command ``tripont`` exists; and ``tensorflow-plugins``, with a link to
  the library that TensorFlow opens.

``--build`` makes all but what is in the environment (``make build``). ``--dependencies`` first installs what
pyproject.toml asks for, ``--tests`` also what the tests need, ``--frameworks`` also TensorFlow and PyTorch/XLA, which
only their tests and examples need (``make test``). TensorFlow's adapter is compiled where TensorFlow is installed.
An ordinary ``pip install -e .`` works too, but builds in an environment of its own and copies the libraries.
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import threading
import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Another folder for a build with other options beside it (cmake/sanitized.py).
BUILD = Path(os.environ.get("TRIPONT_BUILD_FOLDER") or ROOT / "build").resolve()
TREE = BUILD / "dev"
CMAKE_FOLDER = BUILD / "cmake"
TENSORFLOW_PLUGIN = Path("tensorflow-plugins", "libtripont_plugin.so")
EXTRAS = ("jax", "examples")
TESTS = ("sycl", "test")
FRAMEWORKS = ("tensorflow", "torch")
# With a Python from these on there are no packages of an extra: it is left out, and with it the tests that need it.
BEFORE = {"sycl": (3, 15), "tensorflow": (3, 14), "torch": (3, 14)}
PACKAGES = {"sycl": "dpctl 0.22", "tensorflow": "TensorFlow 2.21", "torch": "PyTorch/XLA 2.9"}
# Packages that ask for one that does not exist from a Python on, and need it for nothing that is used here: they are
# installed alone, with these of what they ask for. (flax: tensorstore, for Orbax's checkpoints.)
ALONE = {"flax": ((3, 15), ("msgpack", "pyyaml", "treescope"))}
LARGE = 5e6  # bytes of a download that is worth a line


def read_pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pythons_of(pyproject: dict[str, Any]) -> list[str]:
    """The versions of Python that are supported, from the oldest on: "3.11" and so on."""
    found = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier)
        for classifier in pyproject["project"]["classifiers"]
    )
    return [match[1] for match in found if match]


def version() -> str:
    match = re.search(
        r'"([^"]+)"', (ROOT / "tripont" / "version.py").read_text().split("__version__")[1]
    )
    assert match is not None
    return match.group(1)


def requirements_of(project: dict[str, Any], extras: Iterable[str]) -> list[str]:
    """What the package and its extras ask for, without the package itself."""
    found = [*project["dependencies"]]
    wanted = [*extras]
    for extra in wanted:
        for requirement in project["optional-dependencies"][extra]:
            if own := re.fullmatch(rf"{project['name']}\[(\w+)\]", requirement):
                wanted.append(own[1])  # an extra that another one asks for
            else:
                found.append(requirement)
    return list(dict.fromkeys(found))


def environment_key(pyproject: dict[str, Any]) -> str:
    """The same for two checkouts whose tests can use one environment of this Python."""
    project = pyproject["project"]
    asked = [
        *pyproject["build-system"]["requires"],
        *requirements_of(project, project["optional-dependencies"]),
    ]
    digest = hashlib.sha256("\n".join([sys.version, *sorted(asked)]).encode()).hexdigest()
    return f"python{sys.version_info[0]}.{sys.version_info[1]}-{digest[:12]}"


def available(extras: Iterable[str]) -> list[str]:
    """Those that have packages for this Python. Says which have none."""
    found, missing = [], []
    for extra in extras:
        has = extra not in BEFORE or sys.version_info < BEFORE[extra]
        (found if has else missing).append(extra)
    if missing:
        python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
        named = " and ".join(PACKAGES[extra] for extra in missing)
        print(f"there are no packages of {named} for {python}: left out", flush=True)
    return found


def progress(line: str) -> str | None:
    """What of a line of pip's output is worth showing: downloads that take time, and the step after them."""
    if match := re.search(
        r"Downloading (?:\S*/)?([^/ ]+)\.whl(?:\.metadata)? \(([\d.]+) ([kMG]B)\)", line
    ):
        name, amount, unit = match.groups()
        if float(amount) * {"kB": 1e3, "MB": 1e6, "GB": 1e9}[unit] >= LARGE:
            return f"downloading {'-'.join(name.split('-')[:2])} ({amount} {unit})"
    if line.startswith("Installing collected packages:"):
        return f"unpacking {line.count(',') + 1} packages"
    return None


def install(requirements: Sequence[str]) -> None:
    """pip install the requirements that the last calls have not installed, with a line for each large download."""
    stamp = Path(sys.prefix, "tripont-requirements.txt")
    known = stamp.read_text().splitlines() if stamp.is_file() else []
    head = f"# installed for Python {sys.version}".replace("\n", " ")
    if not known or known[0] != head:
        known = [head]
    new = [requirement for requirement in requirements if requirement not in known]
    if not new:
        return
    print(f"installing {len(new)} requirements into {sys.prefix}", flush=True)
    wanted, alone = [], []
    for requirement in new:
        match = re.match(r"[\w.-]+", requirement)
        assert match is not None
        before, needed = ALONE.get(match[0], (None, ()))
        if before is None or sys.version_info < before:
            wanted.append(requirement)
        else:
            alone.append(requirement)
            wanted += needed
    pip_install(wanted)
    if alone:
        pip_install(["--no-deps", *alone])
    stamp.write_text("\n".join([*known, *new]) + "\n")


def pip_install(arguments: Sequence[str]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--progress-bar=off", *arguments]
    said = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as pip:
        assert pip.stdout is not None
        for line in pip.stdout:
            said.append(line)
            if shown := progress(line):
                print(f"  {shown}", flush=True)
    if pip.returncode:
        sys.stderr.writelines(said[-20:])
        raise SystemExit(f"pip could not install the requirements (exit status {pip.returncode})")


def at_once(first: Callable[[], None], second: Callable[[], None]) -> None:
    """Both, at the same time; the first exception of either when both have ended."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            first()
        except BaseException as error:  # SystemExit too: raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        second()
    finally:
        thread.join()
    if errors:
        raise errors[0]


def link(link_path: Path, target: Path) -> None:
    link_path.parent.mkdir(parents=True, exist_ok=True)
    if link_path.is_symlink() and link_path.resolve() == target.resolve():
        return
    if link_path.is_symlink() or link_path.exists():
        link_path.unlink()
    link_path.symlink_to(os.path.relpath(target, link_path.parent))


def make_tree(pyproject: dict[str, Any]) -> None:
    """Links for what stands in each package folder. The folders are real: the libraries are put into them."""
    for package, source in pyproject["tool"]["scikit-build"]["wheel"]["packages"].items():
        folder = TREE / package
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if old.is_symlink() and not old.exists():
                old.unlink()
        for entry in sorted((ROOT / source).iterdir()):
            is_package = entry.is_dir() and any(entry.glob("*.py"))
            if entry.name != "__pycache__" and (is_package or entry.suffix in {".py", ".typed"}):
                link(folder / entry.name, entry)


def write_bytecode(pyproject: dict[str, Any]) -> None:
    """Beside the package's files, as pip does: every process that compiles imports them, in half the time.

    Python writes it itself, but not where PYTHONDONTWRITEBYTECODE is set, as in many containers.
    """
    sources = pyproject["tool"]["scikit-build"]["wheel"]["packages"].values()
    for folder in (*(ROOT / source for source in sources), TREE):
        compileall.compile_dir(folder, quiet=2)


def install_metadata(pyproject: dict[str, Any]) -> None:
    """What pip would write: metadata, entry points, a RECORD (so that pip can uninstall), the command ``tripont``."""
    site = Path(sysconfig.get_paths()["purelib"])
    scripts = Path(sysconfig.get_paths()["scripts"])
    project = pyproject["project"]
    for old in site.glob("tripont-*.dist-info"):
        shutil.rmtree(old)
    info = site / f"tripont-{version()}.dist-info"
    info.mkdir()
    requires = "".join(f"Requires-Dist: {r}\n" for r in project["dependencies"])
    files = {
        site / "tripont.pth": f"{TREE}\n",
        info
        / "METADATA": f"Metadata-Version: 2.1\nName: tripont\nVersion: {version()}\n{requires}",
        info / "INSTALLER": "make dev\n",
        info / "WHEEL": "Wheel-Version: 1.0\nGenerator: tripont-develop\nRoot-Is-Purelib: false\n",
        info / "entry_points.txt": "".join(
            [
                "[console_scripts]\n",
                *(f"{name} = {value}\n" for name, value in project["scripts"].items()),
                *(
                    f"\n[{group}]\n"
                    + "".join(f"{name} = {value}\n" for name, value in entries.items())
                    for group, entries in project["entry-points"].items()
                ),
            ]
        ),
    }
    for name, value in project["scripts"].items():
        module, function = value.split(":")
        files[scripts / name] = (
            f"#!{sys.executable}\nimport sys\n\nfrom {module} import {function}\n\nsys.exit({function}())\n"
        )
    for path, text in files.items():
        path.write_text(text)
    plugin = site / TENSORFLOW_PLUGIN
    plugins = [plugin] if (TREE / TENSORFLOW_PLUGIN).exists() else []
    if plugins:
        link(plugin, TREE / TENSORFLOW_PLUGIN)
    else:
        plugin.unlink(missing_ok=True)
    for name in project["scripts"]:
        script = scripts / name
        script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    record = "".join(
        f"{os.path.relpath(path, site)},,\n" for path in [*files, *plugins, info / "RECORD"]
    )
    (info / "RECORD").write_text(record)


def build(jobs: int, options: list[str]) -> None:
    """Configure once, build what changed, and put the libraries into the package tree."""
    scripts = sysconfig.get_paths()["scripts"]
    environment = os.environ | {"PATH": scripts + os.pathsep + os.environ.get("PATH", "")}
    cmake = shutil.which("cmake", path=environment["PATH"])
    if cmake is None:
        raise SystemExit("cmake is missing: run `make dev`")
    cache = CMAKE_FOLDER / "CMakeCache.txt"
    if cache.is_file() and f"_Python_EXECUTABLE:INTERNAL={sys.executable}" not in cache.read_text():
        shutil.rmtree(CMAKE_FOLDER)  # made for another environment
    configure = [cmake, "-S", str(ROOT), "-B", str(CMAKE_FOLDER), "-G", "Ninja", *options]
    configure.append(f"-DPython_EXECUTABLE={sys.executable}")
    install = [cmake, "--install", str(CMAKE_FOLDER), "--prefix", str(TREE)]
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "lock", "w") as lock:  # one build at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(configure, check=True, env=environment, stdout=subprocess.DEVNULL)
        if not (CMAKE_FOLDER / ".ninja_log").exists():
            print(f"compiling the C++ part with {jobs} jobs", flush=True)
        subprocess.run(
            [cmake, "--build", str(CMAKE_FOLDER), "--parallel", str(jobs)],
            check=True,
            env=environment,
        )
        subprocess.run(install, check=True, env=environment, stdout=subprocess.DEVNULL)


def main() -> None:
    parser = argparse.ArgumentParser(description="Install the checkout for development.")
    parser.add_argument(
        "--build", action="store_true", help="rebuild the C++ part and link new Python packages"
    )
    parser.add_argument(
        "--dependencies", action="store_true", help="first pip install what is needed"
    )
    parser.add_argument(
        "--tests", action="store_true", help="first pip install what the tests need"
    )
    parser.add_argument(
        "--frameworks", action="store_true", help="first pip install every framework, for the tests"
    )
    parser.add_argument(
        "--lint", action="store_true", help="only pip install the tools of `make lint`"
    )
    parser.add_argument(
        "--key", action="store_true", help="only print a name for the environment that fits"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument(
        "options", nargs="*", help="options for CMake, after --, such as -DTRIPONT_SANITIZE=ON"
    )
    arguments = parser.parse_args()
    if arguments.key:
        print(environment_key(read_pyproject()))
        return
    if sys.prefix == sys.base_prefix:
        raise SystemExit("run this with the Python of a virtual environment (`make dev` does)")
    pyproject = read_pyproject()
    if arguments.lint:
        install(pyproject["project"]["optional-dependencies"]["dev"])
        return
    make_tree(pyproject)
    write_bytecode(pyproject)
    extras = [*EXTRAS]
    if arguments.tests or arguments.frameworks:
        extras += TESTS
    if arguments.frameworks:
        extras += FRAMEWORKS
    extras = available(extras)
    frameworks = any(extra in extras for extra in FRAMEWORKS)

    def requirements() -> list[str]:
        return requirements_of(pyproject["project"], extras)

    def compile() -> None:
        build(arguments.jobs, arguments.options)

    if frameworks:  # TensorFlow first: with it, its adapter is built
        install([*pyproject["build-system"]["requires"], *requirements()])
        compile()
    elif arguments.dependencies or arguments.tests or arguments.frameworks:
        # The compiler works while pip downloads.
        install(pyproject["build-system"]["requires"])
        at_once(lambda: install(requirements()), compile)
    else:
        compile()
    if not arguments.build:
        install_metadata(pyproject)


if __name__ == "__main__":
    main()
