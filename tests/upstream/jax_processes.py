"""JAX's own tests of programs that span processes (its folder ``tests/multiprocess``) on ``xpu``.

    python -m tests.upstream.jax_processes --processes 2 --devices 2      clones the installed JAX, and runs all files
    python -m tests.upstream.jax_processes --jax ~/jax array_test         one file, of a checkout, two processes
    python -m tests.upstream.jax_processes --platform cpu                 on JAX's CPU device with Gloo

Each file starts its processes itself, which needs the package ``portpicker`` (``pip install portpicker``): without it
all processes listen on the same port. A test has failed if it failed in any of the processes, or if a process ended in
it. A test that fails on ``xpu`` must be in ``known_failures_of_processes.toml`` with its reason, and one that is there
must not pass: the exit status is 0 when both hold. On another platform the results are only shown.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from pathlib import Path

from .jax_suite import ROOT, checkout
from .outcomes import Known, Outcome, compare, show

KNOWN_FAILURES = Path(__file__).with_name("known_failures_of_processes.toml")
#: A line of absltest's report: "[       OK ] AllReduceTest.test_psum" or "[  SKIPPED ] ArrayTest.test_x - why".
LINE = re.compile(r"\[ +(RUN|OK|FAILED|SKIPPED) +\] ([\w.]+)")
#: Seconds; JAX's own limits are for a machine that does nothing else.
PATIENCE = 200
LIMITS = [
    f"--{what}_timeout={PATIENCE}"
    for what in ("heartbeat", "shutdown", "barrier", "initialization")
]


def read_report(outcome: Outcome, report: str) -> None:
    """Add what the standard error of one process says of each test."""
    running: set[str] = set()
    for word, test in LINE.findall(report):
        if word == "RUN":
            running.add(test)
            continue
        running.discard(test)
        if word == "FAILED":
            outcome.failed.setdefault(test, "it failed in a process")
        else:
            (outcome.passed if word == "OK" else outcome.skipped).add(test)
    for test in running:
        outcome.failed.setdefault(test, "a process ended in it")
    outcome.passed -= outcome.failed.keys()
    outcome.skipped -= outcome.failed.keys() | outcome.passed


def read_known(processes: int, path: Path = KNOWN_FAILURES) -> list[Known]:
    """The known failures with so many processes: an entry without ``processes`` is one with any number."""
    entries = tomllib.loads(path.read_text()).get("failure", [])
    chosen = [entry for entry in entries if entry.pop("processes", processes) == processes]
    return [Known(**{**entry, "tests": tuple(entry["tests"])}) for entry in chosen]


def run_file(path: Path, options: argparse.Namespace) -> Outcome:
    """Run one file of tests; the output of each of its processes stays in ``options.results``."""
    folder = options.results / path.stem
    folder.mkdir(parents=True, exist_ok=True)
    for log in folder.glob("*.log"):
        log.unlink()
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu" if options.platform == "cpu" else f"{options.platform},cpu",
        "JAX_NUM_CPU_DEVICES": str(options.devices),
        "TRIPONT_NUM_DEVICES": str(options.devices),
        "PYTHONSAFEPATH": "1",  # the installed JAX, not the checkout's
        "TEST_UNDECLARED_OUTPUTS_DIR": str(folder),
    }
    outcome = Outcome(path.stem)
    start = time.monotonic()
    with (folder / "all.log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, str(path), f"--num_processes={options.processes}", *LIMITS],
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(options.file_timeout)
        except subprocess.TimeoutExpired:
            outcome.problem = f"took more than {options.file_timeout} s"
            os.killpg(process.pid, signal.SIGKILL)
            status = process.wait()
    outcome.seconds = time.monotonic() - start
    for number in range(options.processes):
        report = folder / f"jax_{number}_stderr.log"
        read_report(outcome, report.read_text(errors="replace") if report.exists() else "")
    if not outcome.passed | outcome.skipped | outcome.failed.keys():
        outcome.problem = outcome.problem or f"no results: see {folder}"
    elif status != 0 and not outcome.failed and not outcome.problem:
        outcome.problem = f"a process ended with an error after its tests: see {folder}"
    return outcome


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="names of files, all without")
    parser.add_argument("--jax", type=Path, help="a checkout of JAX, of the installed version")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "jax-processes")
    parser.add_argument("--platform", default="xpu")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--devices", type=int, default=1, help="of each process")
    parser.add_argument("--file-timeout", type=int, default=900, help="seconds for one file")
    options = parser.parse_args(arguments)
    if importlib.util.find_spec("portpicker") is None:
        parser.error("these tests need the package portpicker: pip install portpicker")
    options.results = options.results.resolve()
    source = (options.jax or checkout(options.results)).resolve()
    layout = f"{options.platform}-{options.processes}x{options.devices}"
    options.results /= layout
    names = {name.removesuffix(".py") for name in options.files}
    paths = [
        path
        for path in sorted((source / "tests" / "multiprocess").glob("*_test.py"))
        if not names or path.stem in names
    ]
    known = read_known(options.processes) if options.platform == "xpu" else []
    is_good = bool(paths)
    passed = skipped = failed = 0
    for path in paths:
        outcome = run_file(path, options)
        verdict = compare(outcome, known, x64=False)
        show(outcome, verdict)
        is_good = is_good and verdict.good and not outcome.problem
        passed += len(outcome.passed)
        skipped += len(outcome.skipped)
        failed += len(outcome.failed)
    print(f"{layout}: {passed} passed, {skipped} skipped, {failed} failed")
    return 0 if is_good or options.platform != "xpu" else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
