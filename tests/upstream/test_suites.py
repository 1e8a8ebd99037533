"""The runner of frameworks' tests, on a small checkout of its own and without a framework."""

from __future__ import annotations

import ast
import dataclasses
import re
import subprocess
from pathlib import Path

import pytest

from tests.upstream import chosen_tests, outcomes, suites
from tests.upstream.checkout_files import Finder, added_tests
from tests.upstream.jax_suite import HERE
from tests.upstream.outcomes import Known, Outcome

TESTS = """
import os
import unittest
from small.only_tests_need import VALUE

XPU = os.environ["SMALL_DEVICE"] == "xpu"


class SmallTest(unittest.TestCase):

    def test_passes(self):
        self.assertEqual(VALUE, 3)

    def test_fails(self):
        self.assertFalse(XPU)

    def test_fails_everywhere(self):
        self.fail()

    def test_known(self):
        self.assertFalse(XPU)

    def test_listed_but_passes(self):
        pass

    def test_ends_its_process(self):
        if XPU:
            os._exit(3)

    def test_ends_every_process(self):
        os._exit(3)

    def test_hangs(self):
        while XPU:
            pass

    def test_is_skipped(self):
        self.skipTest("why")
"""
PLUGIN = """
import sys, types
from checkout_files import find_in_checkout
sys.modules["small"] = types.ModuleType("small")  # an installed package without a module that tests need
sys.modules["small"].__path__ = []
find_in_checkout("small")
"""
FIRST_ENDS_AT_ITS_EXIT = """
import os
def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput") and not os.path.exists("died"):
        open("died", "w").close()
        os._exit(3)
"""
KNOWN = """
left_out = { "small/left_out_test" = "takes long" }
[[failure]]
file = "small/some_test"
tests = ["SmallTest.test_known", "SmallTest.test_listed*"]
kind = "missing"
reason = "a reason"
"""


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> suites.Suite:
    folder = tmp_path / "checkout" / "small"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("raise ImportError('not the installed package')")
    (folder / "only_tests_need.py").write_text("VALUE = 3")
    (folder / "some_test.py").write_text(TESTS)
    (folder / "left_out_test.py").write_text("raise ImportError('is left out')")
    (folder / "other_test.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(9))\ndef test_of(n): pass\n"
    )
    (tmp_path / "known.toml").write_text(KNOWN)
    (tmp_path / "small_plugin.py").write_text(PLUGIN)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return suites.Suite(
        name="small",
        repository="",
        version=lambda: "1",
        folders=("small",),
        patterns=("small/*_test.py",),
        plugin="small_plugin",
        environment=lambda device: {"SMALL_DEVICE": device},
        known=tmp_path / "known.toml",
        description="",
    )


def _main(suite: suites.Suite, *arguments: str) -> int:
    folder = suite.known.parent
    given = ["--checkout", str(folder / "checkout"), "--results", str(folder / "results")]
    return suites.main(suite, [*given, *arguments])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_run(suite: suites.Suite, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(suite, "--timeout", "5", "--cases", "0", "--together", "2", "--table") == 1
    said = capsys.readouterr().out
    new = set(re.findall(r"NEW .*?(test_\w+):", said))
    assert new == {"test_fails", "test_ends_its_process", "test_hangs"}, said
    assert "listed, but it passes: SmallTest.test_listed*" in said
    assert "| small/some_test | 2 | 1 | 6 | 1 missing, 2 package, 3 unknown |" in said
    assert "| small/other_test | 9 | 0 | 0 |  |" in said
    assert "left_out" not in said
    assert _main(suite, "--report", "--table") == 1  # runs nothing, and says the same
    again = capsys.readouterr().out
    assert again[again.index("| file") :] == said[said.index("| file") :]


@pytest.mark.slow
def test_samples(suite: suites.Suite, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(suite, "--cases", "4", "other") == 0
    assert "4 passed" in capsys.readouterr().out
    assert _main(suite, "--minutes", "0", "other") == 0
    assert not capsys.readouterr().out


def test_the_order_follows_from_the_seed(suite: suites.Suite) -> None:
    names = [f"test_{n}" for n in range(30)]
    one = chosen_tests.order(names, "1")
    assert sorted(one) == sorted(names)
    assert one == chosen_tests.order(reversed(names), "1")
    assert one != chosen_tests.order(names, "2")
    checkout = suite.known.parent / "checkout"
    assert sorted(suite.files(checkout, [], "0")) == ["small/other_test", "small/some_test"]
    assert suite.files(checkout, ["some"], "0") == ["small/some_test"]
    assert suite.files(checkout, ["small/left_out_test"], "0") == ["small/left_out_test"]


def test_failures_of_the_framework_are_counted_as_its_own() -> None:
    known = [Known("of/*_test", ("A.test_b",), "missing", "a reason")]
    names = ["A.test_a", "A.test_b", "A.test_c", "B.test_a", "f.test_f[0.5]", "py.test_g[1.5]"]
    here = Outcome("of/some_test", failed=dict.fromkeys(names, ""))
    verdict = outcomes.compare(here, known, x64=False)
    theirs = ["A.test_a", "f.test_f[1.5]", "A.test_g[1.5]", "py.test_c"]
    verdict.take_theirs(Outcome("of/some_test", failed=dict.fromkeys(theirs, "other words")))
    assert set(verdict.new) == {"B.test_a", "f.test_f[0.5]"}
    assert verdict.kinds == {"missing": 1, "package": 3}


def test_tests_have_the_names_that_results_have(tmp_path: Path) -> None:
    """Those that run again are chosen by the names in the results of the first run."""
    tests = {
        "small/some_test.py::A::test_a": ("small.some_test.A", "test_a"),
        "small/some_test.py::A::B::test_a[0.5]": ("small.some_test.A.B", "test_a[0.5]"),
        "small/some_test.py::test_f[a::b.c]": ("small.some_test", "test_f[a::b.c]"),
    }
    cases = "".join(f'<testcase classname="{c}" name="{n}"/>' for c, n in tests.values())
    (tmp_path / "junit.xml").write_text(f"<testsuite>{cases}</testsuite>")
    passed = outcomes.read_results(tmp_path / "junit.xml").passed
    assert passed == {chosen_tests.name_of(test) for test in tests}
    assert passed == {"A.test_a", "B.test_a[0.5]", "some_test.test_f[a::b.c]"}


def test_results_of_each_file(tmp_path: Path) -> None:
    junit, names = tmp_path / "junit.xml", ["of/a_test", "of/a_test_b", "of/c"]
    parts = [tmp_path / f"{n}.xml" for n in range(3)]
    junit.write_text(
        '<testsuite><testcase classname="of.a_test.C" name="test_d"/>'
        '<testcase classname="of.a_test_b.C" name="test_e"/>'
        '<testcase classname="" name="of.a_test"><error message="collection failure"/></testcase>'
        '<testcase classname="" name="of.nobody"/></testsuite>'
    )
    suites.split_results(junit, names, parts, "said before")
    one, two, three = (suites.read_outcome(part, "of") for part in parts)
    assert one.passed == {"C.test_d"}
    assert one.failed == {"of.a_test": "collection failure"}
    assert two.passed == {"C.test_e"}
    assert two.problem == "said before; results of none of its files: of.nobody"
    assert "no tests" in three.problem
    suites.split_results(tmp_path / "none.xml", names, parts)
    assert [suites.read_outcome(part, "of").problem for part in parts] == [
        "no tests: see 0.log"
    ] * 3


def test_no_files_fail(suite: suites.Suite, capsys: pytest.CaptureFixture[str]) -> None:
    assert _main(suite, "no_such_name") == 1
    assert _main(suite, "--report") == 1
    assert capsys.readouterr().out.count("no files of tests in ") == 2


@pytest.mark.slow
def test_files_without_results_fail(
    suite: suites.Suite, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = suite.known.parent / "checkout" / "small"
    (folder / "import_test.py").write_text("import no_such_module_anywhere")
    (suite.known.parent / "small_plugin.py").write_text(
        PLUGIN + "def pytest_sessionfinish(session): session.exitstatus = 3\n"
    )
    assert _main(suite, "--together", "2", "import", "other_test") == 1
    said = capsys.readouterr().out
    assert "small/import_test: 0 passed, 0 skipped, 1 failed (1 known)" in said  # and on the CPU
    assert "small/other_test: 9 passed" in said
    assert said.count("pytest ended with status 3") == 2
    (suite.known.parent / "small_plugin.py").write_text(PLUGIN + FIRST_ENDS_AT_ITS_EXIT)
    assert _main(suite, "other_test") == 1
    assert "1 of its workers ended outside of tests: see small+" in capsys.readouterr().out
    (suite.known.parent / "small_plugin.py").write_text(PLUGIN)
    (folder / "ends_test.py").write_text("import os; os._exit(0)")
    assert _main(suite, "--together", "2", "ends", "other_test") == 1
    assert capsys.readouterr().out.count("no tests: see ") == 2
    assert _main(suite, "--report", "ends", "other_test") == 1
    assert capsys.readouterr().out.count("no tests: see ") == 2


def test_switches_of_tensorflow_are_not_found(tmp_path: Path) -> None:
    """A full checkout has them, and with the first all graphs are compiled whole."""
    (tmp_path / "small").mkdir()
    finder = Finder("small", tmp_path)
    for name in ("is_xla_test_true", "is_mlir_bridge_test_false", "is_other"):
        (tmp_path / "small" / f"{name}.py").write_text("")
        assert (finder.find_spec(f"small.{name}") is None) == (name != "is_other")


SCRIPT = """
import os

class OpTest:
    def test_one(self): pass

if __name__ == "__main__":
    os.environ["SET_FOR_THE_PROCESS"] = "1"
    set_for_the_process()
    for size in 1, 2:
        setattr(OpTest, f"test_{size}", OpTest.test_one)
    setattr(OpTest, "test_last", OpTest.test_one)
    util.add_tests(OpTest)
    result = test.main()
    raise SystemExit(result)
"""


def test_tests_that_a_script_adds_are_added() -> None:
    """Most tests of TensorFlow's linear algebra are added where their file begins to run as a script."""
    added = [ast.unparse(statement).splitlines()[0] for statement in added_tests(SCRIPT).body]
    assert added == [
        "for size in (1, 2):",
        "setattr(OpTest, 'test_last', OpTest.test_one)",
        "util.add_tests(OpTest)",
    ]


@pytest.mark.slow
def test_tests_that_a_script_of_tensorflow_adds_are_run(suite: suites.Suite) -> None:
    folder = suite.known.parent / "checkout" / "tensorflow"
    folder.mkdir()
    folder.joinpath("script_test.py").write_text(
        "import unittest\n"
        "class OpTest(unittest.TestCase): pass\n"
        "if __name__ == '__main__':\n"
        "    for size in 1, 2: setattr(OpTest, f'test_{size}', lambda self: None)\n"
        "    unittest.main()\n"
    )
    assert _main(dataclasses.replace(suite, patterns=("tensorflow/*_test.py",))) == 0
    (results,) = suite.known.parent.rglob("*script_test.xml")
    assert outcomes.read_results(results).passed == {"OpTest.test_1", "OpTest.test_2"}


def test_lists_have_reasons() -> None:
    for path in HERE.glob("known_failures_of_*.toml"):
        if "processes" not in path.name:
            outcomes.read_known(path)
            assert all(outcomes.read_left_out(path).values())


def test_a_tag_of_the_installed_version_is_cloned(
    suite: suites.Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    fails: list[str] = ["sparse-checkout"]

    def run(command: list[str], check: bool) -> None:
        commands.append(command)
        if command[1] == "clone":
            Path(command[-1]).mkdir()
        if fails and fails[0] in command:
            raise subprocess.CalledProcessError(1, command)

    monkeypatch.setattr("subprocess.run", run)
    there = dataclasses.replace(suite, repository="https://a/b", version=lambda: "2.3")
    with pytest.raises(subprocess.CalledProcessError):
        there.checkout(tmp_path)
    assert not (tmp_path / "small-2.3").exists()  # half a clone is none
    fails.clear()
    commands.clear()
    path = there.checkout(tmp_path)
    assert path == tmp_path / "small-2.3"
    assert commands[0][commands[0].index("--branch") + 1] == "v2.3"
    assert commands[0][-2] == "https://a/b"
    assert commands[1][-2:] == ["set", "small"]
    assert path.is_dir()
    there.checkout(tmp_path)
    assert len(commands) == 2
