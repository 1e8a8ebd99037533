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
from pathlib import Path

from wheel_files import cache_folder, download

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


def main() -> int:
    given = os.environ.get("TRIPONT_PJRT_INCLUDE_DIR")
    if given:
        if not Path(given, HEADER).is_file():
            print(f"TRIPONT_PJRT_INCLUDE_DIR={given} does not hold {HEADER}", file=sys.stderr)
            return 1
        print(given)
        return 0
    folder = installed_tensorflow() or cache_folder(WHEEL) / "include"
    if not (folder / HEADER).is_file():
        try:
            headers = IN_WHEEL + "xla/pjrt/c/"
            download(WHEEL, headers, [".h"], folder / "xla" / "pjrt" / "c")
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
