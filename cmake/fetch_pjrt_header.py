"""Print the folder that holds TensorFlow's headers, and among them ``xla/pjrt/c/pjrt_c_api.h``, the PJRT C API.

The plugin is built against the PJRT header that TensorFlow ships, because its version (0.90) is one that
every supported framework accepts; the TensorFlow adapter (nextpluggable) needs its other headers. Looked for in this
order:

1. ``TRIPONT_PJRT_INCLUDE_DIR`` in the environment (the adapter is built if TensorFlow's headers are there too);
2. an installed TensorFlow of the version below;
3. the cache folder, ``~/.cache/tripont-build`` (or ``$XDG_CACHE_HOME/tripont-build``);
4. the wheel of ``tensorflow-cpu``, downloaded by pip; only the headers are kept, in the cache folder.

``--version`` prints the version of TensorFlow instead. Nothing of TensorFlow is needed after the build.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from wheel_files import cache_folder, download

WHEEL = "tensorflow-cpu==2.21.0"
# The second one belongs to the Profiler extension.
HEADERS = ("xla/pjrt/c/pjrt_c_api.h", "xla/backends/profiler/plugin/profiler_c_api.h")
VERSION = WHEEL.split("==")[1]
IN_WHEEL = "tensorflow/include/"
# Half of the wheel's headers, in bytes, are those of libraries that the adapter has nothing to do with.
FOLDERS = (
    "Eigen",
    "absl",
    "external/farmhash_archive",
    "external/highwayhash",
    "google",
    "ml_dtypes",
    "tensorflow",
    "third_party",
    "tsl",
    "unsupported",
    "xla",
)


def missing(folder: Path) -> str | None:
    """The first of the headers that ``folder`` does not hold."""
    return next((header for header in HEADERS if not (folder / header).is_file()), None)


def installed_tensorflow() -> Path | None:
    """The include folder of an installed TensorFlow of the right version, found without importing it."""
    spec = importlib.util.find_spec("tensorflow")
    for location in (spec.submodule_search_locations or []) if spec else []:
        include = Path(location, "include")
        right = any(Path(location).parent.glob(f"tensorflow*-{VERSION}.dist-info"))
        if right and missing(include) is None:
            return include
    return None


def cached_headers() -> Path:
    """The include folder in the cache, there or not. Another choice of folders has another."""
    return cache_folder(WHEEL) / f"headers-{zlib.crc32(' '.join(FOLDERS).encode()):08x}"


def download_headers(folder: Path) -> None:
    """Fill ``folder``. It appears when it is complete: builds that run at the same time never see half of it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        partial = Path(temporary, "include")
        download(WHEEL, IN_WHEEL, [""], partial, [f"{name}/" for name in FOLDERS])
        try:
            partial.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another build was faster
                raise


def main() -> int:
    if "--version" in sys.argv[1:]:
        print(VERSION)
        return 0
    given = os.environ.get("TRIPONT_PJRT_INCLUDE_DIR")
    if given:
        if absent := missing(Path(given)):
            print(f"TRIPONT_PJRT_INCLUDE_DIR={given} does not hold {absent}", file=sys.stderr)
            return 1
        print(given)
        return 0
    folder = installed_tensorflow() or cached_headers()
    if not folder.is_dir():
        try:
            download_headers(folder)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            print(f"cannot download {WHEEL} for {HEADERS[0]}: {error}", file=sys.stderr)
            print("set TRIPONT_PJRT_INCLUDE_DIR to a folder that holds it", file=sys.stderr)
            return 1
    if absent := missing(folder):
        print(f"{absent} is not in the wheel of {WHEEL}", file=sys.stderr)
        return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
