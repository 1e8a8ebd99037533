"""Writes the artifacts that fuzzers start from anew: ``python -m tests.fuzzers.seeds``, after a change of their format.

They hold kernels for the CPU that this runs on: the ones of the corpus are for x86-64.
"""

from __future__ import annotations

from tests.core.runtime import programs
from tests.fuzzers.targets import CORPUS

SEEDS = {
    "artifact": {"copy": programs.identity, "rich": programs.rich},
    "artifact_reader": {"rich": programs.rich},
}


def main() -> None:
    for reader, seeds in SEEDS.items():
        for name, executable in seeds.items():
            (CORPUS / reader / name).write_bytes(programs.serialize(executable()))


if __name__ == "__main__":
    main()
