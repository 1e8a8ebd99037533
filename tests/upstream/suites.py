"""Runs the test files of a framework's checkout on our device, a sample of them, and judges what comes of it.

Each file is a pytest of its own, or some files are together, where importing the framework takes long; a worker that
dies is replaced. What fails runs again on the framework's own CPU device: what fails on that too is the test's, or the
framework's (``package`` in the tables). Any other failure must be in the suite's list of known failures with its
reason, and a test that is in the list must not pass.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .chosen_tests import order
from .clones import clone
from .jax_suite import HERE, ROOT, stop
from .outcomes import (
    Known,
    Outcome,
    Verdict,
    compare,
    problem_of_run,
    read_known,
    read_left_out,
    read_results,
    show,
    table,
)

#: What every suite's pytest loads besides its own plugin.
PLUGINS = ("chosen_tests", "checkout_files")


@dataclass(frozen=True)
class Suite:
    """A framework's tests.

    ``folders``: those of the checkout that are needed. ``patterns``: of the files with tests, in the checkout.
    ``plugin``: a pytest plugin in this folder. ``environment``: what the processes of a device's tests get besides our
    own environment, for ``"xpu"`` and for ``"cpu"``. ``known``: the list of known failures, and of files that are not
    run. ``cases``, ``timeout``, ``together``: of the options of these names.
    """

    name: str
    repository: str
    version: Callable[[], str]
    folders: tuple[str, ...]
    patterns: tuple[str, ...]
    plugin: str
    environment: Callable[[str], Mapping[str, str]]
    known: Path
    description: str
    cases: int = 20
    timeout: int = 120
    together: int = 1

    def checkout(self, folder: Path) -> Path:
        """The sources of the installed version, cloned into ``folder`` unless they are there."""
        version = self.version()
        return clone(
            self.repository, f"v{version}", folder / f"{self.name}-{version}", self.folders
        )

    def files(self, checkout: Path, words: Sequence[str], seed: str) -> list[str]:
        """The files with one of ``words`` in their names, or all, in an order that ``seed`` decides."""
        left_out = read_left_out(self.known)
        names = {
            path.relative_to(checkout).with_suffix("").as_posix()
            for pattern in self.patterns
            for path in checkout.glob(pattern)
        }
        chosen = [n for n in names if not words or any(word in n for word in words)]
        return order((n for n in chosen if n not in left_out or n in words), seed)


def result_file(options: argparse.Namespace, name: str, device: str) -> Path:
    ending = "" if device == "xpu" else f".on_{device}"
    folder: Path = options.results
    return folder / f"{name.replace('/', '+')}{ending}.xml"


def read_outcome(path: Path, name: str) -> Outcome:
    root = ElementTree.parse(path).getroot()
    outcome = read_results(path)
    outcome.file = name
    outcome.seconds = sum(float(case.get("time", 0)) for case in root.iter("testcase"))
    return outcome


def split_results(
    junit: Path, names: Sequence[str], parts: Sequence[Path], problem: str = ""
) -> None:
    """Write what the JUnit file ``junit`` has of each file of tests in ``names`` to its own file in ``parts``.

    Each part has ``problem``, and that it has no tests or that there are results of no file in ``names``. A ``junit``
    that does not exist has no tests.
    """
    suites = [ElementTree.Element("testsuite") for _ in names]
    owners = [name.replace("/", ".") for name in names]
    lost: list[str] = []
    for case in ElementTree.parse(junit).iter("testcase") if junit.exists() else ():
        # A file that cannot be imported is a test of its name, of no class.
        place = f"{case.get('classname', '')}.{case.get('name', '')}".lstrip(".")
        of = [
            suite
            for suite, o in zip(suites, owners, strict=True)
            if f"{place}.".startswith(f"{o}.")
        ]
        if of:
            of[0].append(case)
        else:
            lost.append(place)
    unowned = f"results of none of its files: {', '.join(lost)[:200]}" if lost else ""
    for suite, part in zip(suites, parts, strict=True):
        without = "" if len(suite) else f"no tests: see {parts[0].with_suffix('.log').name}"
        suite.set("problem", "; ".join(filter(None, [problem, without, unowned])))
        ElementTree.ElementTree(suite).write(part)


def run_files(
    suite: Suite,
    names: Sequence[str],
    device: str,
    options: argparse.Namespace,
    only: Sequence[str] = (),
) -> list[Outcome]:
    """Run samples of files, or their tests ``only``, in one pytest on ``"xpu"`` or ``"cpu"``.

    The results of each file stay in ``options.results``, the output beside those of the first.
    """
    parts = [result_file(options, name, device) for name in names]
    for part in parts:
        part.unlink(missing_ok=True)
    junit = parts[0].with_suffix(".all")
    junit.unlink(missing_ok=True)
    chosen = [f"--cases={options.cases}", f"--seed={options.seed}"]
    if only:
        list_of_names = parts[0].with_suffix(".names")
        list_of_names.write_text("\n".join(only))
        chosen = ["--only-tests", str(list_of_names)]
    plugins = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {
        "PYTHONSAFEPATH": "1",  # the installed package, not the checkout's
        "PYTHONPATH": plugins,
        **suite.environment(device),
    }
    command = [sys.executable, "-m", "pytest", "-q", "--tb=native", "-p", "no:cacheprovider"]
    command += ["--noconftest"]  # a conftest.py would import the checkout's package
    command += [word for plugin in (*PLUGINS, suite.plugin) for word in ("-p", plugin)]
    command += [f"--rootdir={options.checkout}", "-c", os.devnull]
    command += ["-n", str(options.n), "--max-worker-restart=50", f"--timeout={options.timeout}"]
    command += ["--timeout-method=thread", f"--junitxml={junit}", *chosen]
    problem = ""
    limit = options.file_timeout * len(names)
    log_path = parts[0].with_suffix(".log")
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [*command, *(f"{name}.py" for name in names)],
            cwd=options.checkout,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            problem = f"took more than {limit} s"
            stop(process)
    empty = ElementTree.Element("testsuites")
    results = ElementTree.parse(junit).getroot() if junit.exists() else empty
    problem = problem or problem_of_run(process.returncode, log_path, results)
    split_results(junit, names, parts, problem)
    junit.unlink(missing_ok=True)
    return [read_outcome(part, name) for part, name in zip(parts, names, strict=True)]


def judge(
    suite: Suite,
    outcomes: Sequence[Outcome],
    known: Sequence[Known],
    options: argparse.Namespace,
) -> list[Verdict]:
    """``outcomes`` beside the list and the framework's CPU, where what failed and is not listed runs again."""
    verdicts = [compare(outcome, known, x64=False) for outcome in outcomes]
    failed = {o.file: v for o, v in zip(outcomes, verdicts, strict=True) if v.new}
    if options.report:
        paths = {name: result_file(options, name, "cpu") for name in failed}
        there = [read_outcome(path, name) for name, path in paths.items() if path.exists()]
    elif failed and not options.no_cpu:
        tests = [test for verdict in failed.values() for test in verdict.new]
        there = run_files(suite, list(failed), "cpu", options, only=tests)
    else:
        there = []
    for outcome in there:
        failed[outcome.file].take_theirs(outcome)
    return verdicts


def parse(suite: Suite, arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=suite.description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="words in the names of files, all without")
    parser.add_argument("--checkout", type=Path, help="sources of the installed version")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / f"{suite.name}-suite")
    parser.add_argument("--cases", type=int, default=suite.cases, help="tests of a file; 0 is all")
    parser.add_argument("--seed", default="0", help="which tests, and the order of the files")
    parser.add_argument("--minutes", type=float, help="no file is begun after so many")
    parser.add_argument("--together", type=int, default=suite.together, help="files in one process")
    parser.add_argument("-n", type=int, default=1, help="tests at once")
    parser.add_argument("--timeout", type=int, default=suite.timeout, help="seconds for one test")
    parser.add_argument("--file-timeout", type=int, default=3600, help="seconds for one file")
    parser.add_argument("--no-cpu", action="store_true", help="nothing again on the CPU")
    parser.add_argument("--report", action="store_true", help="what earlier results say")
    parser.add_argument("--table", action="store_true", help="print a table of the results")
    return parser.parse_args(arguments)


def main(suite: Suite, arguments: Sequence[str]) -> int:
    """The exit status: 0 when all failures are known, and no known one has gone."""
    options = parse(suite, arguments)
    options.results = options.results.resolve()
    options.results.mkdir(parents=True, exist_ok=True)
    options.checkout = (options.checkout or suite.checkout(options.results)).resolve()
    known = read_known(suite.known)
    results: list[tuple[Outcome, Verdict]] = []
    start = time.monotonic()
    names = suite.files(options.checkout, options.files, options.seed)
    if options.report:
        names = [name for name in names if result_file(options, name, "xpu").exists()]
    if not names:
        print(f"no files of tests in {(options.report and options.results) or options.checkout}")
        return 1
    for first in range(0, len(names), options.together):
        group = names[first : first + options.together]
        if options.minutes is not None and time.monotonic() - start > 60 * options.minutes:
            break
        if options.report:
            outcomes = [read_outcome(result_file(options, n, "xpu"), n) for n in group]
        else:
            outcomes = run_files(suite, group, "xpu", options)
        for outcome, verdict in zip(outcomes, judge(suite, outcomes, known, options), strict=True):
            results.append((outcome, verdict))
            show(outcome, verdict)
    if options.table:
        print(table(sorted(results, key=lambda pair: pair[0].file)), end="")
    return 0 if all(verdict.good and not outcome.problem for outcome, verdict in results) else 1
