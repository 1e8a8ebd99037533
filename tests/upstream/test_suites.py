"""The runner of frameworks' tests, on a small checkout of its own and without a framework."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from tests.upstream import chosen_tests, outcomes, suites
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
    assert "| small/some_test | 2 | 1 | 6 | 1 missing, 2 theirs, 3 unknown |" in said
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


def test_failures_of_the_framework_are_counted_as_theirs() -> None:
    known = [Known("of/*_test", ("A.test_b",), "missing", "a reason")]
    here = Outcome("of/some_test", failed={"A.test_a": "", "A.test_b": "", "A.test_c": ""})
    verdict = outcomes.compare(here, known, x64=False)
    verdict.take_theirs(Outcome("of/some_test", failed={"A.test_a": "other words"}))
    assert verdict.new == {"A.test_c": ""}
    assert verdict.kinds == {"missing": 1, "theirs": 1}


def test_lists_have_reasons() -> None:
    for path in HERE.glob("known_failures_of_*.toml"):
        if "processes" not in path.name:
            outcomes.read_known(path)
            assert all(suites.read_left_out(path).values())


def test_a_tag_of_the_installed_version_is_cloned(
    suite: suites.Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr("subprocess.run", lambda command, check: commands.append(command))
    there = dataclasses.replace(suite, repository="https://a/b", version=lambda: "2.3")
    path = there.checkout(tmp_path)
    assert path == tmp_path / "small-2.3"
    assert commands[0][-4:] == ["--branch", "v2.3", "https://a/b", str(path)]
    assert commands[1][-2:] == ["set", "small"]
    path.mkdir()
    there.checkout(tmp_path)
    assert len(commands) == 2
