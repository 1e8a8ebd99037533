"""``python -m tests.cpus [LEVEL...]``: what must hold on every CPU, at each level that this machine has.

At each level: the sample of the conformance tests, products, convolutions, library calls, linear algebra, JAX programs.
It names the levels that the machine lacks, and ends with 1 if something failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

from . import levels

TESTS = (
    "tests/conformance",
    "tests/core/runtime/library",
    "tests/integration/test_dot_and_convolution.py",
    "tests/frontends/jax/test_linalg.py",
    "tests/integration/test_training.py",
)
# The first chooses levels by itself; the others run no code of the host's CPU, or exchange what others have computed.
DESELECTED = (
    "tests/core/runtime/library/test_integer_products.py",
    "tests/conformance/test_on_sycl.py",
    "tests/conformance/test_constants.py",
    "tests/conformance/test_reference_of_partitions.py",
    "tests/conformance/test_two_devices.py",
)


def main(chosen: list[str]) -> int:
    failed: list[str] = []
    for level in chosen or levels.LEVELS:
        if missing := levels.lacking(level):
            print(f"{level}: not run, this machine has no {', '.join(missing)}", flush=True)
            continue
        start = time.monotonic()
        print(f"{level}:", flush=True)
        commands = [
            ("tests.cpus.integer_products",),
            ("tests.cpus.sample",),
            ("pytest", "-q", "-n", os.environ.get("TESTS_AT_ONCE", "auto"), *TESTS)
            + tuple(f"--ignore={path}" for path in DESELECTED),
        ]
        for command in commands:
            done = subprocess.run(
                [sys.executable, "-m", *command],
                env=levels.environment(level),
                cwd=levels.ROOT,
                check=False,
            )
            if done.returncode:
                failed.append(f"{level}: {' '.join(command)}")
        print(f"{level}: {time.monotonic() - start:.0f} s", flush=True)
    for line in failed:
        print(f"FAILED {line}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
