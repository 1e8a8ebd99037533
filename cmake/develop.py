"""The development install: Python files live from the checkout, C++ rebuilt by one command.

``python cmake/develop.py`` (run by ``make dev`` with the environment's Python) makes

* ``build/dev/tripont``: the package as pyproject.toml lays it out, as links to the checkout's folders;
* ``build/cmake``: the CMake build, whose libraries are put into ``build/dev/tripont``;
* in the environment: ``tripont.pth``, which names ``build/dev``; ``tripont-<version>.dist-info`` with the entry
  points, so that JAX finds the plugin and the command ``tripont`` exists; and ``tensorflow-plugins``, with a link to
  the library that TensorFlow opens.

``--build`` makes all but what is in the environment (``make build``). ``--dependencies`` first installs what
pyproject.toml asks for, ``--frameworks`` also TensorFlow and PyTorch/XLA, which only their tests and examples need
(``make test``).
An ordinary ``pip install -e .`` works too, but builds in an environment of its own and copies the libraries.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "dev"
CMAKE_FOLDER = ROOT / "build" / "cmake"
TENSORFLOW_PLUGIN = Path("tensorflow-plugins", "libtripont_plugin.so")
EXTRAS = ("jax", "examples", "test")
FRAMEWORKS = ("tensorflow", "torch")


def read_pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def version() -> str:
    match = re.search(
        r'"([^"]+)"', (ROOT / "tripont" / "version.py").read_text().split("__version__")[1]
    )
    assert match is not None
    return match.group(1)


def install_dependencies(pyproject: dict[str, Any], extras: tuple[str, ...]) -> None:
    """pip install what the build, the package and the extras need, unless nothing changed since the last time."""
    project = pyproject["project"]
    requirements = [*pyproject["build-system"]["requires"], *project["dependencies"]]
    wanted = list(extras)
    for extra in wanted:
        for requirement in project["optional-dependencies"][extra]:
            if own := re.fullmatch(rf"{project['name']}\[(\w+)\]", requirement):
                wanted.append(own[1])  # an extra that another one asks for
            else:
                requirements.append(requirement)
    stamp = Path(sys.prefix, f"tripont-{'-'.join(extras)}.sha256")
    digest = hashlib.sha256("\n".join([sys.version, *requirements]).encode()).hexdigest()
    if stamp.is_file() and stamp.read_text() == digest:
        return
    print(f"installing {len(requirements)} requirements into {sys.prefix}", flush=True)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, *dict.fromkeys(requirements)], check=True)
    stamp.write_text(digest)


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
    link(plugin, TREE / TENSORFLOW_PLUGIN)
    for name in project["scripts"]:
        script = scripts / name
        script.chmod(script.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    record = "".join(
        f"{os.path.relpath(path, site)},,\n" for path in [*files, plugin, info / "RECORD"]
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
    (ROOT / "build").mkdir(exist_ok=True)
    with open(ROOT / "build" / "lock", "w") as lock:  # one build at a time
        fcntl.flock(lock, fcntl.LOCK_EX)
        subprocess.run(configure, check=True, env=environment, stdout=subprocess.DEVNULL)
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
        "--frameworks", action="store_true", help="first pip install every framework, for the tests"
    )
    parser.add_argument(
        "--lint", action="store_true", help="only pip install the tools of `make lint`"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 2)
    parser.add_argument(
        "options", nargs="*", help="options for CMake, after --, such as -DTRIPONT_SANITIZE=ON"
    )
    arguments = parser.parse_args()
    if sys.prefix == sys.base_prefix:
        raise SystemExit("run this with the Python of a virtual environment (`make dev` does)")
    pyproject = read_pyproject()
    if arguments.lint:
        install_dependencies(pyproject, ("dev",))
        return
    if arguments.dependencies or arguments.frameworks:
        install_dependencies(pyproject, EXTRAS + (FRAMEWORKS if arguments.frameworks else ()))
    make_tree(pyproject)
    if not arguments.build:
        install_metadata(pyproject)
    build(arguments.jobs, arguments.options)


if __name__ == "__main__":
    main()
