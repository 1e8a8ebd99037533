"""The results of other projects' tests, and which of the failures have known reasons."""

from __future__ import annotations

import fnmatch
import re
import sys
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

KNOWN_FAILURES = Path(__file__).with_name("known_failures.toml")

#: Why a test may fail: name -> what that means. Docs show them; a failure that is ours to mend is ``missing``.
KINDS = {
    "platform": "asks for a platform by its name, for a device of XLA's or for its text",
    "stricter": "compares with values that C99 or NumPy do not have, or with those of one library",
    "layout": "needs arrays that lie in tiles in memory",
    "missing": "not done yet",
    "package": "fails on the own CPU device of JAX, or of the framework, as well",
}

#: pytest's exit status when tests passed, when some failed, and when there were none.
RAN = (0, 1, 5)

#: What docs say of a failure, by :attr:`Known.x64`.
TYPES = {None: "", False: " (32-bit types only)", True: " (64-bit types only)"}


@dataclass(frozen=True)
class Known:
    """Tests of a file that fail, and why.

    ``file``: its name, or a pattern; the package's in a package. ``tests``: patterns of ``Class.test``, or of pytest's
    ids in a package. ``kind``: a key of :data:`KINDS`. ``x64``: they fail only with (or only without) 64-bit types.
    ``sometimes``: the values are random, or those of another library.
    """

    file: str
    tests: tuple[str, ...]
    kind: str
    reason: str
    x64: bool | None = None
    sometimes: bool = False


@dataclass
class Outcome:
    """The results of one file, or of one package.

    ``failed``: test -> first line of the error. ``problem``: what was wrong but for tests.
    """

    file: str
    seconds: float = 0.0
    passed: set[str] = field(default_factory=set)
    skipped: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    problem: str = ""


@dataclass
class Verdict:
    """An outcome beside what is known: new failures, the number of known ones by kind, and patterns of known failures
    whose tests pass.
    """

    new: dict[str, str]
    kinds: Counter[str]
    mended: list[str]

    @property
    def good(self) -> bool:
        return not self.new and not self.mended

    def take_theirs(self, there: Outcome) -> None:
        """Count new failures that fail in ``there`` too, the framework's own device, under ``package``."""
        for name in [n for n in self.new if any(_is_same(n, other) for other in there.failed)]:
            del self.new[name]
            self.kinds["package"] += 1


def _is_same(one: str, other: str) -> bool:
    """Whether two names are those of one test; one whose process ended has ``py.`` before it instead of its class."""
    if one.startswith("py.") or other.startswith("py."):
        return one.partition(".")[2] == other.partition(".")[2]
    return one == other


def read_known(path: Path = KNOWN_FAILURES) -> list[Known]:
    """Raises ValueError for an entry of no kind in :data:`KINDS`, or without a reason."""
    known = [
        Known(**{**entry, "tests": tuple(entry["tests"])})
        for entry in tomllib.loads(path.read_text()).get("failure", [])
    ]
    for entry in known:
        if entry.kind not in KINDS or not entry.reason or not entry.tests:
            raise ValueError(
                f"{path.name}: {entry} needs tests, a reason and a kind of {list(KINDS)}"
            )
    return known


def read_left_out(path: Path) -> dict[str, str]:
    """Files of tests that are not run, and why: the table ``left_out`` of a TOML file."""
    return {str(k): str(v) for k, v in tomllib.loads(path.read_text()).get("left_out", {}).items()}


def read_results(path: Path) -> Outcome:
    """The results in pytest's JUnit file of one file of tests.

    A test has the last part of its class's name before its own, or that of its file without a class; a file that cannot
    be imported counts as a test of its name. The root has the run's ``problem`` if it had one.
    """
    root = ElementTree.parse(path).getroot()
    outcome = Outcome(path.stem, problem=root.get("problem", ""))
    for case in root.iter("testcase"):
        of_class = case.get("classname", "").rsplit(".", 1)[-1]
        name = f"{of_class}.{case.get('name', '')}".removeprefix(".")
        bad = case.find("failure")
        bad = case.find("error") if bad is None else bad
        if bad is not None:
            outcome.failed[name] = (bad.get("message") or bad.text or "").strip().split("\n")[0]
        elif case.find("skipped") is not None:
            outcome.skipped.add(name)
        else:
            outcome.passed.add(name)
    outcome.passed -= outcome.failed.keys()
    return outcome


def problem_of_run(status: int, log: Path, results: ElementTree.Element) -> str:
    """What was wrong with a run of pytest but for its tests, or "".

    ``status``: its exit status. ``log``: its output. ``results``: the root of its JUnit file. A worker of pytest-xdist
    that ends in a test is an error of that test; of one that ends at its start or exit only the output tells.
    """
    if status not in RAN:
        return f"pytest ended with status {status}: see {log.name}"
    ends = re.findall(r"\[gw\d+\] node down: Not properly", log.read_text(errors="replace"))
    errors = [case.find("error") for case in results.iter("testcase")]
    of_tests = [
        e for e in errors if e is not None and "crashed while running" in e.get("message", "")
    ]
    lost = len(ends) - len(of_tests)
    return f"{lost} of its workers ended outside of tests: see {log.name}" if lost > 0 else ""


def replace_results(
    earlier: ElementTree.ElementTree[ElementTree.Element],
    newer: ElementTree.ElementTree[ElementTree.Element],
) -> ElementTree.ElementTree[ElementTree.Element]:
    """``earlier``, with the tests of ``newer`` in place of what it has of the same names."""

    def key(case: ElementTree.Element) -> tuple[str | None, str | None]:
        return case.get("classname"), case.get("name")

    cases = {key(case): case for case in newer.iter("testcase")}
    for suite in earlier.iter("testsuite"):
        for place, case in enumerate(list(suite)):
            if case.tag == "testcase":
                suite[place] = cases.get(key(case), case)
    return earlier


def compare(outcome: Outcome, known: Iterable[Known], x64: bool) -> Verdict:
    verdict = Verdict(dict(outcome.failed), Counter(), [])
    for entry in known:
        if entry.x64 not in (None, x64) or not fnmatch.fnmatch(outcome.file, entry.file):
            continue
        for pattern in entry.tests:
            matched = fnmatch.filter(outcome.failed, pattern)
            if not matched and not entry.sometimes and fnmatch.filter(outcome.passed, pattern):
                verdict.mended.append(pattern)
            for name in matched:
                if verdict.new.pop(name, None) is not None:
                    verdict.kinds[entry.kind] += 1
    return verdict


def show(outcome: Outcome, verdict: Verdict) -> None:
    """Print the numbers, every failure that is not known, and patterns of the list whose tests pass."""
    failed = f"{len(outcome.failed)} failed ({verdict.kinds.total()} known)"
    print(
        f"{outcome.file}: {len(outcome.passed)} passed, {len(outcome.skipped)} skipped, {failed}, "
        f"{outcome.seconds:.0f} s {outcome.problem}"
    )
    for test, error in sorted(verdict.new.items()):
        print(f"  NEW {test}: {error[:200]}")
    for pattern in verdict.mended:
        print(f"  listed, but it passes: {pattern}")
    sys.stdout.flush()


def table(results: Iterable[tuple[Outcome, Verdict]], of: str = "file") -> str:
    """Markdown: a row for each ``of``, and a last one for all."""
    rows, total = [], Counter[str]()
    for outcome, verdict in results:
        why = [f"{number} {kind}" for kind, number in sorted(verdict.kinds.items())]
        if verdict.new:
            why.append(f"{len(verdict.new)} unknown")
        if outcome.problem:
            why.append(outcome.problem)
        counts = Counter(
            passed=len(outcome.passed), skipped=len(outcome.skipped), failed=len(outcome.failed)
        )
        total += counts
        rows.append((outcome.file, counts, ", ".join(why)))
    rows.append(("all", total, ""))
    lines = [f"| {of} | passed | skipped | failed | of them |", "|---|---|---|---|---|"]
    lines += [
        f"| {name} | {counts['passed']} | {counts['skipped']} | {counts['failed']} | {why} |"
        for name, counts, why in rows
    ]
    return "\n".join(lines) + "\n"


def reasons(known: Iterable[Known]) -> str:
    """Markdown: the known failures with their reasons, by kind."""
    lines: list[str] = []
    entries = list(known)
    for kind, meaning in KINDS.items():
        chosen = [e for e in entries if e.kind == kind]
        if chosen:
            lines += ["", f"**{kind}**: {meaning}.", ""]
            lines += [
                f"* {e.file}{TYPES[e.x64]}: {', '.join(f'`{t}`' for t in e.tests)}: {e.reason}."
                for e in chosen
            ]
    return "\n".join(lines) + "\n"
