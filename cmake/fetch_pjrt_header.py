"""Print a folder that holds ``xla/pjrt/c/pjrt_c_api.h``, the PJRT C API, as TensorFlow ships it.

The plugin is built against TensorFlow's copy of the header, because its version (0.90) is one that every supported
framework accepts. The folder is the first of these:

1. ``TRIPONT_PJRT_INCLUDE_DIR`` in the environment;
2. the headers of an installed TensorFlow of the version below;
3. the cache folder, ``~/.cache/tripont-build`` (or ``$XDG_CACHE_HOME/tripont-build``);
4. the cache folder, filled from the wheel of ``tensorflow-cpu``: its headers are 4 MB of downloads out of 274.

``--tensorflow`` prints a folder that holds all of TensorFlow's headers that the adapter (nextpluggable) needs, of the
same four places (40 MB of downloads), but that an installed TensorFlow may be of any version that the adapter can be
compiled for; ``--installed`` prints the headers of such a TensorFlow, or nothing; ``--version`` the version that the
headers of ``--tensorflow`` are of. Nothing of TensorFlow is needed after the build.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path

from wheel_files import cache_folder, fetch_part

WHEEL = "tensorflow-cpu==2.21.0"
# What pjrt/ includes; the last one belongs to the Profiler extension.
HEADERS = (
    "xla/pjrt/c/pjrt_c_api.h",
    "xla/pjrt/c/pjrt_c_api_ffi_extension.h",
    "xla/pjrt/c/pjrt_c_api_layouts_extension.h",
    "xla/pjrt/c/pjrt_c_api_profiler_extension.h",
    "xla/backends/profiler/plugin/profiler_c_api.h",
)
ADAPTER_HEADER = "tensorflow/c/kernels.h"
VERSION = WHEEL.split("==")[1]
# The minor versions that the adapter can be compiled for. One that is installed is taken before that of the wheel.
MINORS = ("2.21", "2.22")
IN_WHEEL = "tensorflow/include/"
# Half of the wheel's headers, in bytes, are those of libraries that the adapter has nothing to do with.
FOLDERS = (
    "Eigen/",
    "absl/",
    "external/farmhash_archive/",
    "external/highwayhash/",
    "google/",
    "ml_dtypes/",
    "tensorflow/",
    "third_party/",
    "tsl/",
    "unsupported/",
    "xla/",
)

# Of what the wheel holds of each choice (wheel_files.digest). Another version, or another choice, needs new ones: the
# error of the build says them.
DIGESTS = {
    HEADERS: "6ad57b912e667049e7a7da18492753b879c45235ba5754789a01f70fd43c59c3",
    FOLDERS: "1d98711c71e9769424e119ea5bd5cccc76ac8f9957c1818315070bc1510da9b0",
}


def missing(folder: Path, headers: Sequence[str] = HEADERS) -> str | None:
    """The first of the headers that ``folder`` does not hold."""
    return next((header for header in headers if not (folder / header).is_file()), None)


def installed_tensorflow(minors: Sequence[str]) -> tuple[Path, str] | None:
    """The include folder of an installed TensorFlow of one of the minor versions, whose releases have one binary
    interface each, and its version; found without importing it.
    """
    spec = importlib.util.find_spec("tensorflow")
    for location in (spec.submodule_search_locations or []) if spec else []:
        include = Path(location, "include")
        for package in sorted(Path(location).parent.glob("tensorflow*-*.dist-info")):
            version = package.name.removesuffix(".dist-info").rpartition("-")[2]
            minor = ".".join(version.split(".")[:2])
            # TensorFlow's own name of 2.22.0rc0.
            version = re.sub(r"(?<=\d)(?=rc|a|b)", "-", version)
            known = package.name.startswith(("tensorflow-", "tensorflow_cpu-")) and minor in minors
            if known and missing(include) is None:
                return include, version
    return None


def cached_headers(wanted: Sequence[str]) -> Path:
    """The include folder in the cache, there or not. Another choice of files has another folder."""
    return cache_folder(WHEEL) / f"headers-{zlib.crc32(' '.join(wanted).encode()):08x}"


def fetch_headers(folder: Path, wanted: tuple[str, ...]) -> None:
    """Fill ``folder``. It appears when it is complete: builds that run at the same time never see half of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        partial = Path(temporary, "include")
        fetch_part(WHEEL, IN_WHEEL, wanted, partial, DIGESTS[wanted])
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another build was faster
                raise


def main() -> int:
    parser = argparse.ArgumentParser(description="Find or fetch the headers that the build needs.")
    parser.add_argument("--tensorflow", action="store_true", help="all that the adapter needs")
    parser.add_argument("--installed", action="store_true", help="only of an installed TensorFlow")
    parser.add_argument("--version", action="store_true", help="print TensorFlow's version")
    arguments = parser.parse_args()
    installed = installed_tensorflow(MINORS)
    if arguments.version:
        print(installed[1] if installed else VERSION)
        return 0
    if arguments.installed:
        print(installed[0] if installed else "")
        return 0
    needed = (*HEADERS, ADAPTER_HEADER) if arguments.tensorflow else HEADERS
    given = os.environ.get("TRIPONT_PJRT_INCLUDE_DIR")
    if given:
        if absent := missing(Path(given), needed):
            print(f"TRIPONT_PJRT_INCLUDE_DIR={given} does not hold {absent}", file=sys.stderr)
            return 1
        print(given)
        return 0
    wanted = FOLDERS if arguments.tensorflow else HEADERS
    if not arguments.tensorflow:
        installed = installed_tensorflow(MINORS[:1])
    choices = [cached_headers(FOLDERS), cached_headers(wanted)]
    if installed:
        choices.insert(0, installed[0])
    folder = next((f for f in choices if f.is_dir()), None)
    if folder is None:
        folder = cached_headers(wanted)
        try:
            fetch_headers(folder, wanted)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            print(f"cannot download {WHEEL} for {needed[-1]}: {error}", file=sys.stderr)
            print("set TRIPONT_PJRT_INCLUDE_DIR to a folder that holds it", file=sys.stderr)
            return 1
    if absent := missing(folder, needed):
        print(f"{absent} is not in the wheel of {WHEEL}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
