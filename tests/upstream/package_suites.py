"""The own test suites of packages that are built on JAX, on ``xpu``.

    python -m tests.upstream.package_suites                     every package of packages.py, all of its tests
    python -m tests.upstream.package_suites optax flax --minutes 10     ten minutes of each, chosen at random
    python -m tests.upstream.package_suites keras --cases 200 --seed 3  two hundred tests, of another choice
    python -m tests.upstream.package_suites flax --checkout flax=~/flax a checkout that is there, of the pinned release
    python -m tests.upstream.package_suites --failed            again what failed in earlier runs
    python -m tests.upstream.package_suites --report            runs nothing: what the results of earlier runs say
    python -m tests.upstream.package_suites optax -- -k adam    further arguments are pytest's

Each package has a folder ``build/suites/NAME``: its environment with the pinned release and this checkout's tripont,
the sources of that release (nothing of them is kept here), and the results. The tests run in the order of a hash of
their names and the seed: a run with more minutes or cases runs the tests of a shorter one and more. ``-n`` processes
run at once, each for ``--chunk`` tests; a process that ends in a test, or takes longer for it than ``--timeout``, is
replaced, and that test has failed. A process that ends between tests is replaced too, and fails the run.

What fails on ``xpu`` runs on JAX's own CPU device too (``JAX_PLATFORMS=cpu``). What fails there as well is the
package's own failure. Any other must be in ``known_failures_of_packages.toml`` with its reason, and one that is there
must not pass: the list may only shrink. The exit status is 0 when both hold. ``--docs`` writes the table in
docs/verification.md.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.rivals.environments import set_up

from .chosen_tests import order
from .clones import clone
from .outcomes import RAN, Known, Outcome, Verdict, compare, read_known, show, table
from .packages import FOLDER, PACKAGES, ROOT, Package

HERE = Path(__file__).parent
KNOWN_FAILURES = HERE / "known_failures_of_packages.toml"
DOCS = ROOT / "docs" / "verification.md"
#: ``--docs`` writes what is between the two.
MARKS = (
    "<!-- made by python -m tests.upstream.package_suites --report --docs -->\n",
    "<!-- end -->\n",
)
#: The file, beside the results, with what went wrong outside of tests.
PROBLEM = "problem.txt"
#: pytest's exit status when it was told to stop, because the time is over.
STOPPED = 2
PLATFORMS = {"xpu": "xpu,cpu", "cpu": "cpu"}
#: Variables of the user's that would change the tests.
NOT_INHERITED = ("JAX_", "XLA_", "TRIPONT_", "PYTHON", "KERAS_", "TF_")


@dataclass
class Suite:
    """A package that is ready to run: ``python`` and ``source`` of its environment and its checkout."""

    package: Package
    python: Path
    source: Path
    folder: Path
    pytest_arguments: Sequence[str] = ()
    lock: threading.Lock = field(default_factory=threading.Lock)

    def results(self, platform: str) -> Path:
        return self.folder / ("results.jsonl" if platform == "xpu" else f"{platform}.jsonl")

    def variables(self, platform: str) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(NOT_INHERITED)}
        return inherited | {
            "JAX_PLATFORMS": PLATFORMS[platform],
            "TRIPONT_CACHE": "0",
            "PYTHONSAFEPATH": "1",
            # The checkout's package, which is the installed one: some have their tests in it.
            "PYTHONPATH": os.pathsep.join(map(str, [HERE, self.source])),
            **self.package.variables,
        }

    def command(self, record: Path) -> list[str]:
        return [
            str(self.python), "-m", "pytest", "-q", "-p", "recorded_tests", "-p", "no:cacheprovider",
            "--tb=short", "--continue-on-collection-errors", f"--record={record}",
            f"--rootdir={self.source}", *self.pytest_arguments,
        ]  # fmt: skip


def prepare(package: Package, checkout: Path | None, pytest_arguments: Sequence[str]) -> Suite:
    """Make the environment of a package and clone its sources, unless they are there.

    Raises RuntimeError where the environment cannot be made, CalledProcessError where the sources cannot be had.
    """
    environment = package.environment
    fresh = not environment.record.exists()
    record = set_up(environment, lambda text: print(text, flush=True))
    if record.error:
        raise RuntimeError(f"the environment in {environment.folder}: {record.error}")
    metadata = "import sys; sys.path.insert(0, sys.argv[1]); import develop; "
    metadata += "develop.install_metadata(develop.read_pyproject())"
    if fresh or not list(environment.folder.glob("lib/*/site-packages/tripont-*.dist-info")):
        subprocess.run([environment.python, "-c", metadata, str(ROOT / "cmake")], check=True)
    folder = FOLDER / package.name
    source = checkout or folder / f"source-{package.tag}"
    clone(package.repository, package.tag, source)
    return Suite(package, environment.python, source.resolve(), folder, pytest_arguments)


def collect(suite: Suite) -> list[str]:
    """The names of all tests (pytest's ids), and of files that cannot be imported.

    Raises RuntimeError for none, and where pytest did not get to its end.
    """
    record = suite.folder / "collected.jsonl"
    record.unlink(missing_ok=True)
    ignored = [f"--ignore={suite.source / path}" for path in suite.package.left_out]
    with (suite.folder / "collected.log").open("w") as log:
        subprocess.run(
            [*suite.command(record), "--collect-only", *ignored, *suite.package.tests],
            cwd=suite.source, env=suite.variables("xpu"), stdout=log, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
    lines = read_lines(record)
    tests = list(dict.fromkeys(line["collected"] for line in lines if "collected" in line))
    if not lines or lines[-1].get("ended") not in RAN:
        raise RuntimeError(f"pytest ended before it had collected all tests: see {log.name}")
    if not tests:
        raise RuntimeError(f"no tests: see {log.name}")
    return tests


def chunks_of(tests: Sequence[str], size: int, alone: Sequence[str] = ()) -> Iterator[list[str]]:
    """The tests by ``size``; those of a file that matches a pattern of ``alone`` apart from all others."""
    for start in range(0, len(tests), size):
        files: dict[str, list[str]] = {}
        for test in tests[start : start + size]:
            file = test.partition("::")[0]
            is_alone = any(fnmatch.fnmatch(file, pattern) for pattern in alone)
            files.setdefault(file if is_alone else "", []).append(test)
        yield from files.values()


def read_lines(path: Path) -> list[dict]:
    """The complete lines of a file of JSON objects; none of a file that is not there."""
    if not path.exists():
        return []
    text = path.read_text()
    return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]


def run_tests(
    suite: Suite, tests: Sequence[str], platform: str, options: argparse.Namespace, until: float
) -> str:
    """Run tests in order, ``options.n`` processes at once; results go to ``suite.results``.

    No test starts after ``until`` (seconds since 1970). Returns what went wrong outside of tests, or "".
    """
    waiting = chunks_of(tests, options.chunk, suite.package.alone)
    problems: list[str] = []

    def work(number: int) -> None:
        while time.time() < until:
            with suite.lock:
                chunk = next(waiting, None)
            if chunk is None:
                return
            try:
                found = run_chunk(suite, chunk, platform, options.timeout, until, number)
            except Exception as error:  # it would end the thread, and nobody would hear of it
                found = [f"{type(error).__name__}: {error}"]
            problems.extend(found)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(options.n)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return "; ".join(dict.fromkeys(problems))


def run_chunk(
    suite: Suite, chunk: Sequence[str], platform: str, timeout: float, until: float, number: int
) -> list[str]:
    """Run tests one after another, in a new process after each one that ends before the last of them.

    Returns what went wrong outside of tests. A test that pytest does not find again (a name with an address in it)
    counts as skipped.
    """
    left = list(chunk)
    problems: list[str] = []
    has_run = False
    while left and time.time() < until:
        record = suite.folder / f"running-{platform}-{number}.jsonl"
        record.unlink(missing_ok=True)
        chosen = suite.folder / f"chosen-{platform}-{number}.txt"
        chosen.write_text("\n".join(left))
        command = [*suite.command(record), f"--chosen={chosen}", f"--until={until}"]
        command += dict.fromkeys(test.partition("::")[0] for test in left)
        log_path = suite.folder / f"{platform}-{number}.log"
        with log_path.open("a") as log:
            process = subprocess.Popen(
                command, cwd=suite.source, env=suite.variables(platform), stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            why = watch(process, record, timeout)
        lines = read_lines(record)
        done = [line for line in lines if "test" in line]
        finished = {line["test"] for line in done}
        begun = [line["started"] for line in lines if "started" in line]
        died = [test for test in begun if test not in finished]
        done += [{"test": t, "outcome": "failed", "error": why, "seconds": 0.0} for t in died]
        left = [test for test in left if test not in finished and test not in died]
        status = lines[-1].get("ended") if lines else None
        is_over = time.time() >= until
        has_run = has_run or bool(done)
        if status in RAN and has_run and not died and not is_over:
            why_not = "pytest did not find it again"
            done += [
                {"test": t, "outcome": "skipped", "error": why_not, "seconds": 0.0} for t in left
            ]
        with suite.lock, suite.results(platform).open("a") as results:
            results.writelines(json.dumps(line) + "\n" for line in done)
        if not done and not is_over:
            return [*problems, f"no results: see {log_path}"]
        if not died and (status is None or process.returncode not in (*RAN, STOPPED)):
            where = "between tests" if status is None else "after its tests"
            problems.append(f"{why.replace(' in it', '')} {where}: see {log_path}")
        if status is not None and not died:
            break
    return problems


def watch(process: subprocess.Popen[bytes], record: Path, timeout: float) -> str:
    """Wait for a process of pytest. Returns what to say of a test that it ended in.

    A test that takes longer than ``timeout`` seconds ends with its process, which writes where it was to the log.
    """
    start = time.time()
    while process.poll() is None:
        time.sleep(0.2)
        lines = read_lines(record)
        is_collecting = not any("started" in line for line in lines)
        begun = max(lines[-1]["at"] if lines else 0, start + 300 if is_collecting else 0)
        if time.time() - begun > timeout:
            stop(process)
            return f"took more than {timeout:.0f} s"
    with contextlib.suppress(ProcessLookupError):  # what the tests started and left
        os.killpg(process.pid, signal.SIGKILL)
    return f"the process ended in it with status {process.returncode}"


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and those that it started; faulthandler writes the stacks of its threads first."""
    process.send_signal(signal.SIGABRT)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def outcome_of(name: str, path: Path) -> Outcome:
    """What a file of results says; of a test that ran twice, the last time."""
    outcome = Outcome(name)
    for line in {line["test"]: line for line in read_lines(path)}.values():
        outcome.seconds += line["seconds"]
        if line["outcome"] == "failed":
            outcome.failed[line["test"]] = line["error"]
        else:
            (outcome.passed if line["outcome"] == "passed" else outcome.skipped).add(line["test"])
    return outcome


def judge(suite_folder: Path, name: str, known: Sequence[Known]) -> tuple[Outcome, Verdict]:
    outcome = outcome_of(name, suite_folder / "results.jsonl")
    verdict = compare(outcome, known, x64=False)
    verdict.take_theirs(outcome_of(name, suite_folder / "cpu.jsonl"))
    return outcome, verdict


def run_package(suite: Suite, options: argparse.Namespace, known: Sequence[Known]) -> str:
    """Run a package's tests, and on JAX's CPU those that fail without being known. Returns a problem or ""."""
    results, name = suite.results("xpu"), suite.package.name
    if options.failed:
        tests = sorted(outcome_of(name, results).failed)
    else:
        tests = order(collect(suite), str(options.seed))[: options.cases]
        results.unlink(missing_ok=True)
    # What failed on the CPU before may pass there now: what fails here runs there again.
    suite.results("cpu").unlink(missing_ok=True)
    for log in suite.folder.glob("*-?.log"):
        log.unlink()
    until = time.time() + 60 * options.minutes if options.minutes else float("inf")
    problem = run_tests(suite, tests, "xpu", options, until)
    _, verdict = judge(suite.folder, name, known)
    if verdict.new:
        again = run_tests(suite, sorted(verdict.new), "cpu", options, float("inf"))
        problem = "; ".join(filter(None, [problem, again]))
    return problem


def write_docs(results: Sequence[tuple[Outcome, Verdict]], path: Path = DOCS) -> None:
    """Put the table of these results into a page, between :data:`MARKS`."""
    before, mark, rest = path.read_text().partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    if not mark or not end:
        raise ValueError(
            f"{path}: no line {MARKS[0].strip()!r}, or no line {MARKS[1].strip()!r} after it"
        )
    path.write_text(before + mark + "\n" + table(results, "package") + "\n" + end + after)


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """(our options, pytest's arguments)."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", help=f"packages, all without: {', '.join(PACKAGES)}")
    parser.add_argument("--minutes", type=float, help="of each package's tests on xpu")
    parser.add_argument("--cases", type=int, help="tests of each package")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of tests")
    parser.add_argument(
        "--checkout", action="append", default=[], metavar="NAME=PATH", help="sources of a package"
    )
    parser.add_argument("--failed", action="store_true", help="only what failed in earlier runs")
    parser.add_argument("--report", action="store_true", help="what earlier results say")
    parser.add_argument("--docs", action="store_true", help="write the table of the docs")
    parser.add_argument("-n", type=int, default=2, help="tests at once")
    parser.add_argument("--chunk", type=int, default=50, help="tests of one process")
    parser.add_argument("--timeout", type=float, default=200, help="seconds for one test")
    options = parser.parse_args(arguments[:cut])
    options.checkout = dict(entry.split("=", 1) for entry in options.checkout)
    for name in [*options.names, *options.checkout]:
        if name not in PACKAGES:
            parser.error(f"{name!r} is not one of {', '.join(PACKAGES)}")
    return options, list(arguments[cut + 1 :])


def main(arguments: Sequence[str]) -> int:
    options, pytest_arguments = parse(arguments)
    known = read_known(KNOWN_FAILURES)
    results: list[tuple[Outcome, Verdict]] = []
    for name in options.names or PACKAGES:
        folder, problem = FOLDER / name, ""
        ran = (folder / "results.jsonl").exists()
        if not options.report and (ran or not options.failed):
            checkout = options.checkout.get(name)
            try:
                suite = prepare(
                    PACKAGES[name],
                    Path(checkout).expanduser() if checkout else None,
                    pytest_arguments,
                )
                problem = run_package(suite, options, known)
            except (RuntimeError, subprocess.CalledProcessError) as error:
                problem = str(error)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / PROBLEM).write_text(problem)
        elif not ran and options.names:
            problem = "no results of earlier runs"
        elif not ran:
            continue
        elif (folder / PROBLEM).exists():
            problem = (folder / PROBLEM).read_text()
        outcome, verdict = judge(folder, name, known)
        outcome.problem = problem
        results.append((outcome, verdict))
        show(outcome, verdict)
    if not results:
        print(f"no results of earlier runs in {FOLDER}")
        return 1
    if options.docs:
        write_docs(results)
    return 0 if all(verdict.good and not outcome.problem for outcome, verdict in results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
