"""JAX's own test suite on ``xpu``.

    python -m tests.upstream.jax_suite                          clones the installed JAX, and runs all its files
    python -m tests.upstream.jax_suite --jax ~/jax lax_test     one file, of a checkout
    python -m tests.upstream.jax_suite --x64 -n 2 --cases 10    with 64-bit types; two at once; ten cases a test
    python -m tests.upstream.jax_suite lax_test -- -k Conv      further arguments are pytest's
    python -m tests.upstream.jax_suite --failed                 again what failed in earlier runs
    python -m tests.upstream.jax_suite --report                 runs nothing: what the results of earlier runs say

JAX's packages bring no tests: they are those of a checkout of the installed version (Apache 2.0; nothing of it is kept
here). Each file is a pytest of its own (some want eight devices), whose workers are replaced when one dies. A test that
fails must be in ``known_failures.toml`` with its reason, and one that is there must not pass: the list may only shrink.
The exit status is 0 when both hold, pytest got to its end in each file, and no worker ended at its start or exit.
``--docs`` writes the table of its types (``--x64`` or not) in docs/jax-test-suite.md.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence
from pathlib import Path

from .clones import clone
from .outcomes import (
    Known,
    Outcome,
    Verdict,
    compare,
    problem_of_run,
    read_known,
    read_left_out,
    read_results,
    reasons,
    replace_results,
    show,
    table,
)

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
REPOSITORY = "https://github.com/jax-ml/jax"
DOCS = ROOT / "docs" / "jax-test-suite.md"
#: The rest of docs/jax-test-suite.md is made by ``--docs``.
MARK = "<!-- made by python -m tests.upstream.jax_suite --report --docs -->\n"
#: The headings of its tables, by ``--x64``.
HEADINGS = {False: "Results with 32-bit types", True: "Results with 64-bit types"}
#: Files that are not run, and why.
LEFT_OUT = HERE / "left_out.toml"


def checkout(folder: Path, repository: str = REPOSITORY) -> Path:
    """JAX's sources of the installed version, cloned into ``folder`` unless they are there."""
    import jax

    return clone(repository, f"jax-v{jax.__version__}", folder / f"jax-{jax.__version__}")


def run_file(path: Path, options: argparse.Namespace, pytest_arguments: Sequence[str]) -> Outcome:
    """Run one file of tests; its results and its output stay in ``options.results``.

    With ``options.failed`` those of its tests that have failed before, whose results are replaced.
    """
    junit = options.results / f"{path.stem}.xml"
    chosen, earlier = [], None
    if options.failed and junit.exists():
        earlier = ElementTree.parse(junit)
        failed = read_results(junit).failed
        if not failed:
            return read_results(junit)
        names = options.results / f"{path.stem}.failed"
        names.write_text("\n".join(failed))
        chosen = ["--only-tests", str(names)]
    new = junit.with_suffix(".new")
    new.unlink(missing_ok=True)
    environment = os.environ | {
        "JAX_PLATFORMS": "xpu,cpu",
        "JAX_ENABLE_X64": str(int(options.x64)),
        "JAX_NUM_GENERATED_CASES": str(options.cases),
        "JAX_SKIP_SLOW_TESTS": "true",
        "PYTHONSAFEPATH": "1",  # the installed JAX, not the checkout's
        "PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }
    # Other forms of --tb parse a failing test's whole file, which CPython 3.11 cannot do while another thread, of a
    # callback that fails, parses what it logs: SystemError "AST constructor recursion depth mismatch".
    command = [sys.executable, "-m", "pytest", "-q", "-p", "xpu_under_jax_tests", "--tb=native"]
    command += ["-p", "chosen_tests"]
    command += ["-n", str(options.n), "--max-worker-restart=50", f"--timeout={options.timeout}"]
    command += ["--timeout-method=thread", f"--junitxml={new}", "-p", "no:cacheprovider"]
    start = time.monotonic()
    problem = ""
    log_path = junit.with_suffix(".log")
    with log_path.open("w") as log:
        process = subprocess.Popen(
            [*command, *chosen, *pytest_arguments, str(path)],
            cwd=options.jax,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            process.wait(options.file_timeout)
        except subprocess.TimeoutExpired:
            problem = f"took more than {options.file_timeout} s"
            stop(process)
    results = ElementTree.ElementTree(ElementTree.Element("testsuites"))
    if new.exists():
        results = ElementTree.parse(new)
        new.unlink()
    problem = problem or problem_of_run(process.returncode, log_path, results.getroot())
    # A run succeeds where no worker lives to collect a test.
    if not problem and next(results.iter("testcase"), None) is None:
        problem = f"no tests: see {log_path.name}"
    if earlier is not None:
        # What is missing since then is missing still.
        problems = [earlier.getroot().get("problem", ""), problem]
        problem = "; ".join(dict.fromkeys(filter(None, problems)))
        results = replace_results(earlier, results)
    results.getroot().set("problem", problem)
    results.write(junit)
    outcome = read_results(junit)
    outcome.seconds = time.monotonic() - start
    return outcome


def stop(process: subprocess.Popen[bytes], patience: float = 60) -> None:
    """Interrupt pytest, so that it writes down what it has."""
    process.send_signal(signal.SIGINT)
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def write_docs(
    results: Sequence[tuple[Outcome, Verdict]], known: Sequence[Known], x64: bool
) -> None:
    """Put the table of these results and the reasons into docs/jax-test-suite.md; the other types' table stays."""
    prose, mark, made = DOCS.read_text().partition(MARK)
    tables = dict(re.findall(r"^## (.+)\n\n((?:\|.*\n)+)", made, re.MULTILINE))
    tables[HEADINGS[x64]] = table(results)
    left_out = [f"* {name}: {why}." for name, why in read_left_out(LEFT_OUT).items()]
    parts = [f"## {name}\n\n{tables[name]}" for name in HEADINGS.values() if name in tables]
    parts += ["## Known failures", reasons(known), "## Not run\n", "\n".join(left_out)]
    DOCS.write_text(prose + mark + "\n" + "\n".join(parts) + "\n")


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, list[str]]:
    """(our options, pytest's arguments)."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="*", help="names of files, all without")
    parser.add_argument("--jax", type=Path, help="a checkout of JAX, of the installed version")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "jax-suite")
    parser.add_argument("--failed", action="store_true", help="only what failed in earlier runs")
    parser.add_argument("--report", action="store_true", help="what earlier results say")
    parser.add_argument("--docs", action="store_true", help="write a table of the docs")
    parser.add_argument("--x64", action="store_true", help="with 64-bit types (JAX_ENABLE_X64)")
    parser.add_argument("--cases", type=int, default=5, help="JAX_NUM_GENERATED_CASES")
    parser.add_argument("-n", type=int, default=2, help="tests at once")
    parser.add_argument("--timeout", type=int, default=120, help="seconds for one test")
    parser.add_argument("--file-timeout", type=int, default=3600, help="seconds for one file")
    return parser.parse_args(arguments[:cut]), list(arguments[cut + 1 :])


def main(arguments: Sequence[str]) -> int:
    options, pytest_arguments = parse(arguments)
    options.results = options.results.resolve()
    options.results.mkdir(parents=True, exist_ok=True)
    known = read_known()
    results: list[tuple[Outcome, Verdict]] = []
    if options.report:
        paths = sorted(options.results.glob("*.xml"))
        paths = [p for p in paths if not options.files or p.stem in options.files]
    else:
        options.jax = (options.jax or checkout(options.results)).resolve()
        left_out = read_left_out(LEFT_OUT)
        names = [n.removesuffix(".py") for n in options.files]
        paths = [options.jax / "tests" / f"{name}.py" for name in names] or [
            p
            for p in sorted((options.jax / "tests").glob("*_test.py"))
            if p.stem not in left_out
            and (not options.failed or (options.results / f"{p.stem}.xml").exists())
        ]
    for path in paths:
        outcome = (
            read_results(path) if options.report else run_file(path, options, pytest_arguments)
        )
        verdict = compare(outcome, known, options.x64)
        results.append((outcome, verdict))
        show(outcome, verdict)
    if options.docs:
        write_docs(results, known, options.x64)
    good = [verdict.good and not outcome.problem for outcome, verdict in results]
    return 0 if good and all(good) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
