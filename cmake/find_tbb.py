"""Print the folder of ``TBBConfig.cmake`` in the ``tbb-devel`` wheel of the running environment."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path


def main() -> int:
    try:
        files = importlib.metadata.files("tbb-devel") or []
    except importlib.metadata.PackageNotFoundError:
        print("tbb-devel is not installed in this environment", file=sys.stderr)
        return 1
    for file in files:
        if file.name == "TBBConfig.cmake":
            print(Path(str(file.locate())).resolve().parent)
            return 0
    print("the installed tbb-devel has no TBBConfig.cmake", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
