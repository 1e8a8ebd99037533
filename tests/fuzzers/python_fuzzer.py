"""One reader of ``targets.py`` under Atheris: ``python -m tests.fuzzers.python_fuzzer READER [ARGS of libFuzzer]``."""

from __future__ import annotations

import sys

import atheris  # PyPI


def main() -> None:
    with atheris.instrument_imports(include=["tripont"]):
        from tests.fuzzers.targets import TARGETS

        target = TARGETS[sys.argv.pop(1)]
        target(b"")  # what it imports when it is called first
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
