"""The runner of JAX's tests, on a small checkout of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import jax
import pytest

from tests.upstream import jax_suite, outcomes
from tests.upstream.outcomes import Known, Outcome, compare

TESTS = """
import os
import sys
import time
from absl.testing import parameterized
import jax
import jax.numpy as jnp
from jax._src import test_util as jtu


class SmallTest(jtu.JaxTestCase):

  @parameterized.named_parameters(("_of_three", 3), ("_of_five", 5))
  def test_passes(self, n):
    self.assertEqual(jax.devices()[0].platform, "xpu")
    self.assertEqual(jnp.arange(n).sum(), n * (n - 1) // 2)
    self.assertEqual(jax.config.x64_enabled, False)

  def test_fails(self):
    self.assertEqual(jnp.float32(1) + 1, 3)

  def test_known(self):
    self.assertTrue(jtu.is_device_tpu())

  def test_mended(self):
    pass

  @jtu.run_on_devices("cpu")
  def test_of_cpus_runs(self):
    pass

  @jtu.run_on_devices("tpu")
  def test_of_tpus(self):
    raise AssertionError("runs")

  @jtu.skip_on_devices("cpu")
  def test_not_for_xla_cpu_runs(self):
    pass

  def test_captures(self):
    with jtu.capture_stdout() as output:
      print("heard")
    self.assertEqual(output(), "heard\\n")

  def test_reads_flags(self):
    self.assertTrue(self.create_tempdir())

  def test_module_that_packages_leave_out(self):
    from jax._src import hypothesis_test_util
    self.assertTrue(os.path.samefile(hypothesis_test_util.__file__, "jax/_src/hypothesis_test_util.py"))

  def test_left_out_by_pytest(self):
    raise AssertionError("runs")

  def test_hangs(self):
    time.sleep(100)

  def test_ends_its_process(self):
    os._exit(3)
"""

KNOWN = """
[[failure]]
file = "small_test"
tests = ["*.test_known", "SmallTest.test_mended"]
kind = "platform"
reason = "of TPUs"
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "small_test.py").write_text(TESTS)
    (tmp_path / "tests" / "mosaic_test.py").write_text("raise ValueError('is left out')")
    (tmp_path / "conftest.py").write_text("")  # pytest puts its folder on the path
    (tmp_path / "jax" / "_src").mkdir(parents=True)
    (tmp_path / "jax" / "__init__.py").write_text("raise ImportError('not the installed JAX')")
    (tmp_path / "jax" / "_src" / "hypothesis_test_util.py").write_text("")
    (tmp_path / "known.toml").write_text(KNOWN)
    entries = outcomes.read_known(tmp_path / "known.toml")
    monkeypatch.setattr(jax_suite, "read_known", lambda: entries)
    folders = ["--jax", str(tmp_path), "--results", str(tmp_path / "results")]
    options = ["-n", "1", "--timeout", "10", "--", "-k", "not left_out"]
    assert jax_suite.main([*folders, *options]) == 1
    assert "mosaic" not in capsys.readouterr().out
    outcome = outcomes.read_results(tmp_path / "results" / "small_test.xml")
    # xdist gives the tests of a dead worker without their class.
    failed = {name.rsplit(".", 1)[-1] for name in outcome.failed}
    log = (tmp_path / "results" / "small_test.log").read_text()
    assert failed == {"test_fails", "test_known", "test_hangs", "test_ends_its_process"}, log
    assert {name.removeprefix("SmallTest.") for name in outcome.passed} == {
        "test_passes_of_three",
        "test_passes_of_five",
        "test_mended",
        "test_of_cpus_runs",
        "test_not_for_xla_cpu_runs",
        "test_captures",
        "test_reads_flags",
        "test_module_that_packages_leave_out",
    }, log
    assert outcome.skipped == {"SmallTest.test_of_tpus"}
    assert jax_suite.main([*folders, "--report"]) == 1
    said = capsys.readouterr().out
    assert "4 failed (1 known)" in said
    assert "NEW SmallTest.test_fails" in said
    assert "listed, but it passes: SmallTest.test_mended" in said
    path = tmp_path / "tests" / "small_test.py"
    mended = path.read_text().replace("jnp.float32(1) + 1, 3", "jnp.float32(1) + 1, 2")
    path.write_text(mended.replace("time.sleep(100)", "pass").replace("os._exit(3)", "pass"))
    assert jax_suite.main([*folders, "-n", "1", "--failed"]) == 1  # for what is mended
    said = capsys.readouterr().out
    assert "11 passed, 1 skipped, 1 failed (1 known)" in said
    assert "NEW" not in said


CONFTEST = """
import os

DIED = os.path.join(os.path.dirname(__file__), "died")

def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):
        # The first worker alone: xdist starts another one in its place.
        if "exit_test.py" in session.config.args[0] and not os.path.exists(DIED):
            open(DIED, "w").close()
            os._exit(3)
    elif "status_test.py" in session.config.args[0]:
        session.exitstatus = 3
"""
FILES = {
    "empty": "",
    "import": "import no_such_module_anywhere",
    "exit": "def test_a(): pass",
    "status": "def test_a(): pass",
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_was_lost_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "conftest.py").write_text(CONFTEST)
    for name, text in FILES.items():
        (tmp_path / "tests" / f"{name}_test.py").write_text(text)
    folders = ["--jax", str(tmp_path), "--results", str(tmp_path / "results")]
    expected = {
        "empty": r"0 passed, .* no tests: see empty_test.log\n",
        "import": r"0 passed, 0 skipped, 1 failed \(0 known\)",
        "exit": r"1 passed, .* 1 of its workers ended outside of tests: see exit_test.log\n",
        "status": r"1 passed, .* pytest ended with status 3: see status_test.log\n",
    }
    for name, line in expected.items():
        for option in (["-n", "1"], ["--report"]):
            assert jax_suite.main([*folders, *option, f"{name}_test"]) == 1
            assert re.match(f"{name}_test: {line}", capsys.readouterr().out)
    # Running what failed again gives no results of what was lost.
    assert jax_suite.main([*folders, "--failed", "exit_test"]) == 1


@pytest.mark.parametrize(("on_interrupt", "status"), [("sys.exit(5)", 5), ("None", -9)])
def test_a_file_that_takes_too_long_may_write_what_it_has(on_interrupt: str, status: int) -> None:
    program = f"""
import signal, sys, time
signal.signal(signal.SIGINT, lambda *_: {on_interrupt})
print("ready", flush=True)
while True: time.sleep(1)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == b"ready\n"
        jax_suite.stop(process, patience=60 if status > 0 else 0.2)
    assert process.returncode == status


def test_the_checkout_is_that_of_the_installed_version(tmp_path: Path) -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", "-C", str(tmp_path / "origin")]
    (tmp_path / "origin").mkdir()
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "a release"], check=True)
    subprocess.run([*git, "tag", f"jax-v{jax.__version__}"], check=True)
    path = jax_suite.checkout(tmp_path, f"file://{tmp_path}/origin")
    assert (path / ".git").exists()
    assert jax_suite.checkout(tmp_path, "nowhere") == path  # it is there


def test_no_results_fail(tmp_path: Path) -> None:
    assert jax_suite.main(["--report", "--results", str(tmp_path)]) == 1


def test_known_failures() -> None:
    outcome = Outcome("a_test", passed={"C.one"}, failed={"C.two_x": "why", "C.three": "who knows"})
    known = [
        Known("a_test", ("C.two*",), "missing", "because"),
        Known("a_test", ("C.one", "C.not_run"), "missing", "because"),
        Known("a_test", ("C.one",), "missing", "at times", sometimes=True),
        Known("a_test", ("C.three",), "missing", "with 64 bits", x64=True),
        Known("b_test", ("C.three",), "missing", "of another file"),
    ]
    verdict = compare(outcome, known, x64=False)
    assert verdict.new == {"C.three": "who knows"}
    assert verdict.kinds == Counter(missing=1)
    assert verdict.mended == ["C.one"]
    assert not verdict.good
    rows = outcomes.table([(outcome, verdict)]).splitlines()
    assert rows[2] == "| a_test | 1 | 0 | 2 | 1 missing, 1 unknown |"
    assert rows[3].startswith("| all | 1 | 0 | 2 |")
    assert compare(outcome, known, x64=True).new == {}


def test_the_page_has_a_table_of_each_width(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"Prose.\n{jax_suite.MARK}\n## Results\n\nno table\n")
    monkeypatch.setattr(jax_suite, "DOCS", page)
    known = [Known("a_test", ("C.one",), "missing", "with 64 bits", x64=True)]
    for x64, passed in [(False, "one"), (True, "two"), (False, "three")]:
        outcome = Outcome(f"{passed}_test", passed={f"C.{passed}"})
        jax_suite.write_docs([(outcome, compare(outcome, known, x64))], known, x64)
    written = page.read_text()
    assert written.startswith(f"Prose.\n{jax_suite.MARK}\n## Results with 32-bit types\n\n| file |")
    assert [line for line in written.splitlines() if line.startswith(("## ", "| all", "| t"))] == [
        "## Results with 32-bit types",
        "| three_test | 1 | 0 | 0 |  |",
        "| all | 1 | 0 | 0 |  |",
        "## Results with 64-bit types",
        "| two_test | 1 | 0 | 0 |  |",
        "| all | 1 | 0 | 0 |  |",
        "## Known failures",
        "## Not run",
    ]
    assert "* a_test (64-bit types only): `C.one`: with 64 bits." in written
    assert "no table" not in written
    assert "* cudnn_fusion_test: needs cuDNN." in written


def test_the_list_is_well_formed(tmp_path: Path) -> None:
    patterns = [(k.file, k.x64, t) for k in outcomes.read_known() for t in k.tests]
    assert len(patterns) == len(set(patterns))
    bad = tmp_path / "bad.toml"
    bad.write_text(KNOWN.replace('"platform"', '"no kind"'))
    with pytest.raises(ValueError, match="no kind"):
        outcomes.read_known(bad)
