"""Print the folder that holds ``xla/pjrt/c/pjrt_c_api.h``, the header of the PJRT C API.

The plugin is built against the header that TensorFlow ships, because its version (0.90) is one that
every supported framework accepts. Looked for in this order:

1. ``TRIPONT_PJRT_INCLUDE_DIR`` in the environment;
2. an installed TensorFlow;
3. the cache folder, ``~/.cache/tripont-build`` (or ``$XDG_CACHE_HOME/tripont-build``);
4. the wheel of ``tensorflow-cpu``, downloaded by pip; only the header is kept, in the cache folder.

Nothing of TensorFlow is needed after the build.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "tensorflow-cpu==2.21.0"
HEADER = "xla/pjrt/c/pjrt_c_api.h"
IN_WHEEL = "tensorflow/include/"


def installed_tensorflow() -> Path | None:
    """The include folder of an installed TensorFlow, found without importing it."""
    spec = importlib.util.find_spec("tensorflow")
    for location in (spec.submodule_search_locations or []) if spec else []:
        include = Path(location, "include")
        if (include / HEADER).is_file():
            return include
    return None


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base, "tripont-build", WHEEL.replace("==", "-"), "include")


def download(destination: Path) -> None:
    """Have pip download the wheel, and keep the headers of the PJRT C API under ``destination``.

    The interpreter's version is fixed, so that the header is found whichever Python runs the build.
    """
    with tempfile.TemporaryDirectory() as folder:
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
        ]
        command += ["--no-deps", "--only-binary=:all:", "--python-version=3.12", "--dest", folder]
        command += [f"--platform=manylinux_2_{minor}_x86_64" for minor in (17, 27, 28, 34)]
        subprocess.run([*command, WHEEL], check=True, stdout=sys.stderr)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names = [n for n in archive.namelist() if n.startswith(IN_WHEEL + "xla/pjrt/c/")]
            for name in names:
                if name.endswith(".h"):
                    target = destination / name.removeprefix(IN_WHEEL)
                    target.parent.mkdir(parents=True, exist_ok=True)
                    # Written beside and renamed: builds that run at the same time never see half a header.
                    partial = target.with_suffix(f".{os.getpid()}")
                    partial.write_bytes(archive.read(name))
                    partial.rename(target)


def main() -> int:
    given = os.environ.get("TRIPONT_PJRT_INCLUDE_DIR")
    if given:
        if not Path(given, HEADER).is_file():
            print(f"TRIPONT_PJRT_INCLUDE_DIR={given} does not hold {HEADER}", file=sys.stderr)
            return 1
        print(given)
        return 0
    folder = installed_tensorflow() or cache_folder()
    if not (folder / HEADER).is_file():
        try:
            download(folder)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            print(f"cannot download {WHEEL} for {HEADER}: {error}", file=sys.stderr)
            print("set TRIPONT_PJRT_INCLUDE_DIR to a folder that holds it", file=sys.stderr)
            return 1
    if not (folder / HEADER).is_file():
        print(f"{HEADER} is not in the wheel of {WHEEL}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
