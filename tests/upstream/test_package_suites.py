"""The runner of packages' suites, on a small package of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.rivals import environments
from tests.upstream import outcomes, package_suites, packages

TESTS = """import os, signal, time, unittest
import pytest

ON_XPU = os.environ["JAX_PLATFORMS"] == "xpu,cpu"

class Things(unittest.TestCase):
    def test_good(self):
        assert os.environ["SETTING"] == "7" and os.environ["TRIPONT_CACHE"] == "0"

    def test_of_another_device(self):
        self.skipTest("needs a TPU")

@pytest.mark.parametrize("number", range(6))
def test_numbers(number):
    assert number != 3 or not ON_XPU, "three\\nis a crowd"

def test_own():
    raise ValueError("never worked")
"""
ENDS = """import os, signal, time

def test_before():
    pass

def test_dies():
    os.kill(os.getpid(), signal.SIGSEGV)

def test_hangs():
    time.sleep(1000)

def test_after():
    pass
"""
#: pytest does not find a test again whose name has an address in it; here, the number of a process.
OTHER_NAMES = """import os, signal
import pytest

@pytest.mark.parametrize("name", [f"of_{os.getpid()}"])
def test_names(name):
    pass

def test_dies():
    os.kill(os.getpid(), signal.SIGSEGV)
"""
BROKEN = "import no_such_module_anywhere\n"
#: A conftest.py: the process ends after a test that passed.
ENDS_BETWEEN = """import os
import pytest

@pytest.hookimpl(trylast=True)
def pytest_runtest_logfinish(nodeid):
    os._exit(3)
"""
HANGS_AT_EXIT = """import threading, time

def test_leaves_a_thread():
    threading.Thread(target=time.sleep, args=(1000,)).start()
"""
#: Tests that fail on "xpu" alone, as pytest names them.
THREE = "tests/test_things.py::test_numbers[3]"


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources of a package ``small``, which is the only one and whose environment is this one."""
    source = tmp_path / "source"
    (source / "tests" / "slow").mkdir(parents=True)
    (source / "tests" / "test_things.py").write_text(TESTS)
    (source / "tests" / "slow" / "test_left_out.py").write_text(
        "def test_wrong(): raise ValueError"
    )
    package = packages.Package(
        "small", "small==1", "nowhere", "v1", ("tests",),
        variables={"SETTING": "7"}, left_out={"tests/slow": "takes hours"},
    )  # fmt: skip
    known = tmp_path / "known.toml"
    known.write_text("")
    monkeypatch.setattr(package_suites, "PACKAGES", {"small": package})
    monkeypatch.setattr(package_suites, "FOLDER", tmp_path / "results")
    monkeypatch.setattr(package_suites, "KNOWN_FAILURES", known)

    def prepare(package, path, arguments):
        folder = tmp_path / "results" / package.name
        folder.mkdir(parents=True, exist_ok=True)
        return package_suites.Suite(package, Path(sys.executable), path, folder, arguments)

    monkeypatch.setattr(package_suites, "prepare", prepare)
    return source


def run(source: Path, *arguments: str) -> int:
    return package_suites.main([f"--checkout=small={source}", *arguments])


def results(source: Path, file: str = "results") -> list[str]:
    path = source.parent / "results" / "small" / f"{file}.jsonl"
    return [json.loads(line)["test"] for line in path.read_text().splitlines()]


def test_failures_that_nobody_knows_fail_the_run(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(checkout) == 1
    shown = capsys.readouterr().out
    assert "small: 6 passed, 1 skipped, 2 failed (1 known)" in shown
    assert f"NEW {THREE}: AssertionError: three" in shown
    assert "NEW tests/test_things.py::test_own" not in shown  # fails on the CPU as well
    assert sorted(results(checkout, "cpu")) == sorted([THREE, "tests/test_things.py::test_own"])
    assert run(checkout, "--report") == 1
    assert capsys.readouterr().out == shown


def test_known_failures_may_only_shrink(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    known = checkout.parent / "known.toml"
    entry = '[[failure]]\nfile = "small"\nkind = "missing"\nreason = "three"\ntests = ["{}"]\n'
    known.write_text(entry.format("tests/test_things.py::test_numbers?3?"))
    assert run(checkout) == 0
    known.write_text(entry.format("tests/test_things.py::test_numbers?[34]?"))
    assert run(checkout, "--report") == 0
    capsys.readouterr()
    known.write_text(known.read_text() + entry.format("*::test_good"))
    assert run(checkout, "--report") == 1
    assert "listed, but it passes: *::test_good" in capsys.readouterr().out


def test_a_process_that_ends_or_hangs_is_replaced(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests" / "test_things.py").unlink()
    (checkout / "tests" / "test_ends.py").write_text(ENDS)
    (checkout / "tests" / "test_broken.py").write_text(BROKEN)
    assert run(checkout, "--timeout", "4") == 0  # all of it happens on the CPU too
    assert "small: 2 passed, 0 skipped, 3 failed (3 known)" in capsys.readouterr().out
    outcome = package_suites.outcome_of("small", checkout.parent / "results/small/results.jsonl")
    assert outcome.failed["tests/test_ends.py::test_dies"].endswith("status -11")
    assert outcome.failed["tests/test_ends.py::test_hangs"] == "took more than 4 s"
    assert "no_such_module_anywhere" in outcome.failed["tests/test_broken.py"]


def test_a_collection_that_does_not_end_fails_the_run(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests" / "test_a_first.py").write_text(BROKEN)
    (checkout / "tests" / "test_ends.py").write_text("import os; os._exit(0)")
    assert run(checkout) == 1
    shown = capsys.readouterr().out
    assert "pytest ended before it had collected all tests" in shown
    assert run(checkout, "--report", "small") == 1
    assert "small: 0 passed" in capsys.readouterr().out


def test_a_process_that_ends_between_tests_is_replaced(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests" / "test_things.py").write_text(TESTS.partition("@pytest")[0])
    (checkout / "tests" / "conftest.py").write_text(ENDS_BETWEEN)
    assert run(checkout, "-n", "1") == 1
    shown = capsys.readouterr().out
    assert "small: 1 passed, 1 skipped, 0 failed" in shown
    assert "the process ended with status 3 between tests: see " in shown
    assert run(checkout, "--report") == 1
    assert capsys.readouterr().out == shown


def test_tests_that_are_not_found_again_are_skipped(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests" / "test_things.py").write_text(OTHER_NAMES)
    assert run(checkout) == 0  # it dies on the CPU too
    assert "small: 0 passed, 1 skipped, 1 failed (1 known)" in capsys.readouterr().out


def test_a_process_that_hangs_at_its_exit_is_stopped(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (checkout / "tests" / "test_things.py").write_text(HANGS_AT_EXIT)
    assert run(checkout, "--timeout", "2") == 1
    shown = capsys.readouterr().out
    assert "small: 1 passed, 0 skipped, 0 failed" in shown
    assert "took more than 2 s after its tests" in shown


def test_an_error_in_a_worker_fails_the_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raises(*_: object) -> list[str]:
        raise OSError("no space left")

    monkeypatch.setattr(package_suites, "collect", lambda suite: ["a::b"])
    monkeypatch.setattr(package_suites, "run_chunk", raises)
    assert run(checkout) == 1
    assert "OSError: no space left" in capsys.readouterr().out


@pytest.mark.parametrize("what", [["--failed"], ["--report"], ["--report", "--docs"]])
def test_no_results_fail(checkout: Path, monkeypatch: pytest.MonkeyPatch, what: list[str]) -> None:
    monkeypatch.setattr(package_suites, "write_docs", lambda results: pytest.fail("no results"))
    assert run(checkout, *what) == 1


def test_a_failure_on_the_cpu_is_that_of_this_run(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would hide one on our device that came later."""
    ran: list[tuple[str, list[str]]] = []

    def run_tests(suite, tests, platform, options, until):
        ran.append((platform, list(tests)))
        line = {"test": "a::b", "outcome": "failed" if platform == "xpu" else "passed"}
        suite.results(platform).write_text(json.dumps(line | {"error": "", "seconds": 0}) + "\n")
        return ""

    monkeypatch.setattr(package_suites, "collect", lambda suite: ["a::b"])
    monkeypatch.setattr(package_suites, "run_tests", run_tests)
    for arguments in ([], ["--failed"]):
        stale = checkout.parent / "results" / "small" / "cpu.jsonl"
        stale.parent.mkdir(parents=True, exist_ok=True)
        line = {"test": "a::b", "outcome": "failed", "error": "", "seconds": 0}
        stale.write_text(json.dumps(line) + "\n")
        ran.clear()
        assert run(checkout, *arguments) == 1
        assert ran == [("xpu", ["a::b"]), ("cpu", ["a::b"])]


def test_a_file_that_is_broken_later_has_failed_tests(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    (tmp_path / "chosen").write_text("test_broken.py::test_one\ntest_broken.py::test_other")
    record = tmp_path / "record.jsonl"
    command = [sys.executable, "-m", "pytest", "-p", "recorded_tests", f"--record={record}"]
    environment = os.environ | {"PYTHONPATH": str(package_suites.HERE)}
    subprocess.run(
        [*command, "--chosen=chosen", "--continue-on-collection-errors", "."],
        cwd=tmp_path, env=environment, check=False,
    )  # fmt: skip
    lines = package_suites.read_lines(record)
    assert [line.get("outcome") for line in lines] == ["failed", "failed", None]
    assert lines[-1]["ended"] == 1


def test_a_longer_run_has_the_tests_of_a_shorter_one(checkout: Path) -> None:
    run(checkout, "--cases", "3", "-n", "1", "--seed", "5")
    few = results(checkout)
    run(checkout, "--cases", "6", "-n", "1", "--seed", "5", "--chunk", "2")
    assert few == results(checkout)[:3]
    run(checkout, "--cases", "6", "-n", "1", "--seed", "6")
    assert set(few) != set(results(checkout)[:3])


def test_no_test_starts_when_the_time_is_over(tmp_path: Path) -> None:
    record = tmp_path / "record.jsonl"
    (tmp_path / "test_two.py").write_text("def test_one(): pass\ndef test_other(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "recorded_tests", f"--record={record}"]
    environment = os.environ | {"PYTHONPATH": str(package_suites.HERE)}
    subprocess.run([*command, "--until=1", "."], cwd=tmp_path, env=environment, check=False)
    lines = package_suites.read_lines(record)
    assert [line["test"] for line in lines if "test" in line] == ["test_two.py::test_one"]


def test_failed_runs_only_what_failed(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(checkout)
    number = len(results(checkout))
    tests = checkout / "tests" / "test_things.py"
    tests.write_text(TESTS.replace("number != 3", "True"))
    assert run(checkout, "--failed") == 0
    assert sorted(results(checkout)[number:]) == [THREE, "tests/test_things.py::test_own"]
    assert "small: 7 passed, 1 skipped, 1 failed (1 known)" in capsys.readouterr().out


def test_files_of_their_own_processes() -> None:
    tests = ["a::1", "b::1", "a::2", "c::1"]
    assert list(package_suites.chunks_of(tests, 3)) == [tests[:3], tests[3:]]
    alone = list(package_suites.chunks_of(tests, 3, ["[ac]"]))
    assert alone == [["a::1", "a::2"], ["b::1"], ["c::1"]]


def test_the_table_of_the_docs(checkout: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    outcome = outcomes.Outcome("small", passed={"a"}, failed={"b": "", "c": ""})
    verdict = outcomes.compare(outcome, [outcomes.Known("small", ("b",), "missing", "b")], False)
    page.write_text("Before.\n" + package_suites.MARKS[0] + "old\n" + package_suites.MARKS[1])
    package_suites.write_docs([(outcome, verdict)], page)
    assert "| small | 1 | 0 | 2 | 1 missing, 1 unknown |\n" in page.read_text()
    assert page.read_text().startswith("Before.\n")
    assert "old" not in page.read_text()
    page.write_text("no marks")
    with pytest.raises(ValueError, match="no line"):
        package_suites.write_docs([(outcome, verdict)], page)


def test_the_sources_are_those_of_the_tag(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository = tmp_path / "repository"
    git = ["git", "-C", str(repository), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    for tag in ("v1", "v2"):
        (repository / "version").write_text(tag)
        subprocess.run([*git, "add", "."], check=True)
        subprocess.run([*git, "commit", "-q", "-m", tag], check=True)
        subprocess.run([*git, "tag", tag], check=True)
    for module in (package_suites, packages):
        monkeypatch.setattr(module, "FOLDER", tmp_path / "suites")
    monkeypatch.setattr(package_suites, "set_up", lambda *_: environments.Installed())
    package = packages.Package("small", "small==1", f"file://{repository}", "v1", ("tests",))
    (package.environment.folder / "lib/python3/site-packages/tripont-1.dist-info").mkdir(
        parents=True
    )
    package.environment.record.write_text("{}")
    for _ in range(2):  # the second one has it
        suite = package_suites.prepare(package, None, ())
        assert (suite.source / "version").read_text() == "v1"
    assert suite.python == package.environment.folder / "bin" / "python"
    monkeypatch.setattr(package_suites, "set_up", lambda *_: environments.Installed(error="no pip"))
    with pytest.raises(RuntimeError, match="no pip"):
        package_suites.prepare(package, None, ())


def test_entries_are_whole() -> None:
    assert {entry.file for entry in outcomes.read_known(package_suites.KNOWN_FAILURES)} <= set(
        packages.PACKAGES
    )
    for name, package in packages.PACKAGES.items():
        assert name == package.name
        version = package.requirement.partition("==")[2]
        assert version
        assert package.tag.removeprefix("v") == version
        assert all(package.left_out.values())
        assert set(packages.JAX) <= set(package.environment.requirements)
