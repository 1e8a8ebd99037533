"""Print the folder that holds the oneDNN that the package brings: ``libdnnl.so.3`` and its licences.

It is the build for oneTBB threads, which the host target needs. Installed as a package of its own it would ask for
oneTBB 2021, though it runs with later ones, and the OpenCL CPU runtime asks for oneTBB 2023; and the oneDNN for SYCL
puts a library of the same name into the same folder. Looked for in the cache folder, ``~/.cache/tripont-build`` (or
``$XDG_CACHE_HOME/tripont-build``), then in the wheel, downloaded by pip.
"""

from __future__ import annotations

import subprocess
import sys

from wheel_files import cache_folder, fetch

WHEEL = "onednn-cpu-tbb==2023.2.0"
IN_WHEEL = "onednn_cpu_tbb-2023.2.0.data/data/"
# Of what starts with one of FILES (wheel_files.digest). A new version needs a new one: the error of the build says it.
DIGEST = "938f59dec062a46c287c70e1de800efdd50bc0666a7071f90aad967f13f39ea6"
FILES = ("lib/libdnnl.so.3", "share/doc/onednn/LICENSE", "share/doc/onednn/THIRD-PARTY-PROGRAMS")


def main() -> int:
    folder = cache_folder(WHEEL)
    if not all((folder / file).is_file() for file in FILES):
        try:
            fetch(WHEEL, IN_WHEEL, FILES, folder, DIGEST)
        except (OSError, subprocess.CalledProcessError, ValueError) as error:
            print(f"cannot download {WHEEL}: {error}", file=sys.stderr)
            return 1
    print(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
