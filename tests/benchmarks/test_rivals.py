"""benchmarks.rivals with rivals that are this Python and NumPy: the protocol, agreement, resumption, the page."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from benchmarks.rivals import __main__ as command
from benchmarks.rivals import agreement, environments, limits, measure, page, store, worker
from benchmarks.rivals.environments import Environment, Rival
from benchmarks.rivals.measure import REFERENCE, Rounds, Team
from benchmarks.rivals.program import Program, programs
from benchmarks.rivals.protocol import RivalError, Worker

FAKES = "tests.benchmarks.fake_programs"
ROUNDS = Rounds(seconds=0.02, turn=0.005, least=3)


class Here(Environment):
    """An environment that stands: this process's own."""

    @property
    def python(self) -> Path:
        return Path(sys.executable)


HERE = Here("here", (), ())


def fake(name: str) -> Program:
    return programs((FAKES,))[name]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    names = ("tripont", "other", REFERENCE)
    found = Team(
        {n: Rival(n, "numpy", HERE) for n in names}, 1, (FAKES,), tmp_path_factory.mktemp("logs")
    )
    yield found
    found.close()


def run(team: Team, name: str) -> dict[str, dict[str, Any]]:
    return measure.run(team, fake(name), ["tripont", "other"], ROUNDS)


class TestProtocol:
    def test_turns_are_interleaved_rounds_of_every_rival(self, team: Team) -> None:
        rows = run(team, "fake_sum")
        assert set(rows) == {"tripont", "other"}
        count = ROUNDS.count(max(row["call_seconds"] for row in rows.values()))
        for row in rows.values():
            assert row["error"] == ""
            assert len(row["seconds"]) == count
            assert 0 < measure.minimum(row) <= measure.median(row)
            assert row["version"].startswith("NumPy")

    def test_processor_time_is_not_that_of_waiting(self, team: Team) -> None:
        least = {}
        for clock in ("wall", "cpu"):
            rounds = dataclasses.replace(ROUNDS, clock=clock)
            rows = measure.run(team, fake("fake_wait"), ["tripont"], rounds)
            least[clock] = measure.minimum(rows["tripont"])
        assert least["cpu"] < 0.03 <= least["wall"]

    def test_a_refusal_is_told_in_the_rivals_words(self, team: Team) -> None:
        with pytest.raises(RivalError, match="NotImplementedError: no such operation"):
            team.worker("other").ask(30.0, do="prepare", program="fake_refusal", results="unused")

    def test_a_rival_that_is_wrong_is_not_timed(self, team: Team) -> None:
        rows = run(team, "fake_wrong")
        assert rows["other"]["error"].startswith("wrong: result 0 is off by")
        assert "seconds" not in rows["other"]

    def test_what_roundings_move_over_a_jump_is_not_wrong(self, team: Team) -> None:
        assert run(team, "fake_jump")["other"]["error"] == ""
        assert run(team, "fake_step")["other"]["error"].startswith("wrong: result 0 is off by")

    def test_a_process_that_dies_is_named_and_started_again(self, team: Team) -> None:
        assert "ended with 3" in run(team, "fake_death")["other"]["error"]
        assert run(team, "fake_sum")["other"]["error"] == ""

    def test_a_late_answer_ends_the_process(self, team: Team) -> None:
        worker = team.worker("other")
        with pytest.raises(RivalError, match="no answer in 1 s"):
            worker.ask(1.0, do="prepare", program="fake_hang", results="unused")
        assert not worker.alive
        assert worker.process.poll() is not None

    def test_rivals_without_the_program_are_left_out(self, team: Team) -> None:
        program = fake("fake_other")
        found = measure.run(
            team, Program(**{**vars(program), "check": lambda r: ""}), ["other"], ROUNDS
        )
        assert found == {}

    def test_waiting_rivals_are_stopped(self, team: Team) -> None:
        worker = team.worker("other")
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            state = (
                Path(f"/proc/{worker.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
            )
            if state == "T":
                return
            time.sleep(0.01)
        pytest.fail(f"the waiting process is in state {state}")

    def test_memory_is_inputs_temporaries_and_results_whatever_ran_before(self, team: Team) -> None:
        worker = team.worker("tripont", environments.EXACT_MEMORY)
        assert worker is not team.worker("tripont")
        for before in ("fake_sum", "fake_memory", "fake_memory"):
            worker.ask(30.0, do="memory", program=before)
            peak = worker.ask(30.0, do="memory", program="fake_memory")["peak_bytes"]
            assert abs(peak - (40 << 20)) < 1 << 20  # pages are counted roughly

    def test_memory_is_measured_of_us_and_of_jaxlibs(self, team: Team) -> None:
        peaks = measure.memories(team, fake("fake_memory"), ["tripont", "other"])
        assert list(peaks) == ["tripont"]
        assert measure.memories(team, fake("fake_other"), ["tripont"]) == {}
        (failed,) = measure.memories(team, fake("fake_refusal"), ["tripont"]).values()
        assert failed["error"].startswith("memory: NotImplementedError")

    def test_a_worker_that_cannot_start_says_why(self, tmp_path: Path) -> None:
        with pytest.raises(RivalError, match="ended with 7"):
            Worker([sys.executable, "-c", "import os; os._exit(7)"], {}, tmp_path / "log")


def test_a_slow_program_has_three_rounds() -> None:
    assert Rounds(1.5).count(10.0) == 3


class TestAgreement:
    EPS = agreement.EPSILONS["float32"]

    def disagreement(self, ours: Any, exact: Any, moved: Any = None, terms: int = 1) -> str:
        moved = exact if moved is None else moved
        return agreement.disagreement(
            [np.asarray(ours)], [np.asarray(exact)], [np.asarray(moved)], self.EPS, terms
        )

    def test_another_order_of_a_sum_agrees(self) -> None:
        x = np.random.default_rng(0).normal(size=(50, 4096)).astype(np.float32)
        running = np.cumsum(x, axis=1, dtype=np.float32)[:, -1]
        assert self.disagreement(running, x.sum(1, dtype=np.float64), terms=4096) == ""

    def test_a_missing_term_does_not(self) -> None:
        x = np.random.default_rng(0).normal(size=4096).astype(np.float32)
        assert "off by" in self.disagreement(x[1:].sum(), x.sum(dtype=np.float64), terms=4096)

    def test_bfloat16_in_between_does_not(self) -> None:
        x = np.linspace(1, 2, 100)
        rounded = (np.float32(x).view(np.int32) & -65536).view(np.float32)
        assert "off by" in self.disagreement(rounded, x)

    def test_ill_conditioned_programs_may_be_off_by_as_much_as_their_inputs_move_them(self) -> None:
        exact, moved = np.array([1.0, 2.0]), np.array([1.001, 2.0])
        assert self.disagreement(exact + 1e-3, exact, moved) == ""
        assert "off by" in self.disagreement(exact + 1e-2, exact, moved)

    @pytest.mark.parametrize(
        ("ours", "exact", "said"),
        [
            (np.zeros(3), np.zeros(4), "shape"),
            (np.array([1, 2]), np.array([1, 3]), "1 of 2 integers"),
            (np.array([1.0, np.nan]), np.array([1.0, 2.0]), "not finite"),
            (np.array([1.0, np.nan]), np.array([np.nan, 1.0]), "not finite"),
        ],
    )
    def test_shapes_integers_and_nans(self, ours: np.ndarray, exact: np.ndarray, said: str) -> None:
        assert said in self.disagreement(ours, exact)

    def test_the_number_of_results(self) -> None:
        assert "2 results" in agreement.disagreement(
            [np.zeros(1)] * 2, [np.zeros(1)], [np.zeros(1)], 0.1, 1
        )


OURS = {"seconds": [[1e-3, 2e-3], [1.5e-3, 2e-3]], "compile_seconds": 0.1, "peak_bytes": 1 << 20}
THEIRS = {"seconds": [[5e-4, 4e-3]], "compile_seconds": 0.2, "peak_bytes": 2 << 20}
OLDER = {"seconds": [[2e-3, 4e-3]], "compile_seconds": 0.2, "peak_bytes": 1 << 19}
ROWS = {
    "tripont": {"error": "", "version": "t 1", **OURS},
    "jaxlib-newest": {"error": "", "version": "j 1", **THEIRS},
    "jaxlib-0.10.2": {"error": "", "version": "j 0", **OLDER},
    "torch": {"error": "wrong: result 0", "version": "p 1"},
}
MACHINE = {
    "cpu": "A CPU, model 1",
    "threads": 2,
    "instructions": "avx2",
    "left_out": {"onnxruntime": "no Python 3.99 was found"},
    "limits": {"copied": [[1000, 5e8], [10000, 4e8]], "flops": {"f32": 1e9}},
}


@pytest.fixture
def results(tmp_path: Path) -> store.Store:
    return store.Store(tmp_path / "results")


def result_of(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "digest": store.digest(fake(name)),
        "commit": "c",
        "load": 0.5,
        "threads": 2,
        "rivals": ROWS,
    } | changes


class TestResumption:
    def test_what_was_measured_is_not_measured_again(self, results: store.Store) -> None:
        program = fake("fake_sum")
        assert results.missing(program, ["tripont"], 2) == ["tripont"]
        results.write("fake_sum", result_of("fake_sum"))
        assert results.missing(program, ["tripont", "torch"], 2) == []

    def test_a_rival_that_came_later_is(self, results: store.Store) -> None:
        results.write("fake_sum", result_of("fake_sum"))
        assert results.missing(fake("fake_sum"), ["tripont", "scipy"], 2) == ["scipy"]

    def test_a_program_that_changed_is(self, results: store.Store) -> None:
        results.write("fake_sum", result_of("fake_sum", digest="of an older file"))
        assert results.missing(fake("fake_sum"), ["tripont"], 2) == ["tripont"]

    def test_another_number_of_threads_is(self, results: store.Store) -> None:
        results.write("fake_sum", result_of("fake_sum"))
        assert results.missing(fake("fake_sum"), ["tripont"], 3) == ["tripont"]
        assert results.rows(fake("fake_sum"), 2) == ROWS

    def test_a_file_that_was_cut_off_is(self, results: store.Store) -> None:
        results.write("fake_sum", result_of("fake_sum"))
        results.path("fake_sum").write_text('{"digest": "')
        assert results.missing(fake("fake_sum"), ["tripont"], 2) == ["tripont"]


def test_a_run_without_a_reference_says_which_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = {"torch": environments.RIVALS["torch"]}
    monkeypatch.setattr(command, "usable", lambda console, wanted: (torch, {}))
    app = typer.Typer()
    app.command()(command.main)
    done = CliRunner().invoke(app, ["--rivals", "torch"])
    assert done.exit_code == 2
    assert "jaxlib-0.10.2" in done.output


class TestPage:
    @pytest.fixture
    def text(self, results: store.Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
        monkeypatch.setattr(
            page, "programs", lambda: {n: fake(n) for n in ("fake_sum", "fake_hang")}
        )
        monkeypatch.setattr(page, "REASONS", {"fake_sum": "It sums twice."})
        monkeypatch.setattr(page, "MEMORY_REASONS", {"fake_sum": "It keeps both sums."})
        results.write("limits", MACHINE)
        results.write("fake_sum", result_of("fake_sum"))
        path = tmp_path / "performance.md"
        path.write_text(
            "# Old\n\n## A CPU, model 1, 2 threads\n\nold figures\n\n## Another CPU, 8 threads\n\nkept\n"
        )
        page.write(path, results)
        return path.read_text()

    def test_a_ratio_below_one_is_listed_with_its_reason(self, text: str) -> None:
        assert "| `fake_sum` | 0.50 | jaxlib-newest | It sums twice. |" in text

    def test_minima_medians_limits_compile_time_and_memory(self, text: str) -> None:
        # 4,000 bytes at 0.5 GB/s are 8 us, 1 % of our millisecond.
        assert (
            "| 1 ms | 500 us jaxlib-newest | 0.50 (2.00) | 0.50 | 1% | 100 ms / 200 ms | 1.0 / 0.5 MB |"
            in text
        )

    def test_memory_above_that_of_the_same_jax_is_listed_with_its_reason(self, text: str) -> None:
        assert "| `fake_sum` | 1.0 MB | 0.5 MB | It keeps both sums. |" in text

    def test_a_rival_whose_memory_was_not_measured_has_none(self) -> None:
        rows = {"tripont": ROWS["tripont"], "jaxlib-0.10.2": {"error": "", "seconds": [[1, 1]]}}
        row = page.row_of(fake("fake_sum"), {"rivals": rows})
        assert row is not None
        assert page.memory_excesses([row]) == []

    def test_how_far_complaints_are_from_their_goal(self) -> None:
        """Times in milliseconds: ours, jaxlib 0.4.31's and the newest one's."""

        def row(name: str, module: str, *times: float) -> page.Row:
            rivals = zip(("tripont", "jaxlib-0.4.31", "jaxlib-newest"), times, strict=True)
            rows = {rival: {"error": "", "seconds": [[t, t]]} for rival, t in rivals}
            program = dataclasses.replace(fake("fake_sum"), name=name, module=module)
            found = page.row_of(program, {"rivals": rows})
            assert found is not None
            return found

        complaint = "benchmarks.complaints.loops"
        rows = [
            row("one", complaint, 1, 5, 2), row("two", complaint, 1, 1.479, 1.9),
            row("three", complaint, 1, 4, 3), row("other", "benchmarks.rivals.programs.fft", 2, 1, 1),
        ]  # fmt: skip
        assert page.summary(rows).endswith(
            " Users' complaints (`benchmarks/complaints`): 2 of 3 (66.7%) at least twice as fast as the newest "
            "jaxlib, none below 1.47x the best of the three (`two`)."
        )
        assert "complaints" not in page.summary(rows[-1:])

    def test_rivals_that_are_missing_or_wrong_are_named(self, text: str) -> None:
        assert "onnxruntime: no Python 3.99 was found" in text
        assert "| `fake_sum` | torch | wrong: result 0 |" in text

    def test_programs_without_a_result_are_named(self, text: str) -> None:
        assert "Programs that have not been measured on this CPU: `fake_hang`." in text

    def test_other_cpus_sections_stay(self, text: str) -> None:
        assert "## Another CPU, 8 threads\n\nkept" in text
        assert "old figures" not in text


class TestEnvironments:
    def test_no_interpreter(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(environments, "FOLDER", tmp_path)
        record = environments.set_up(Environment("x", ("3.2",), ()), lambda text: None)
        assert record.error == "no Python 3.2 was found"
        assert environments.installed(Environment("x", ("3.2",), ())) == record
        assert environments.installed(Environment("x", ("3.2",), ("numpy",))) is None

    def test_a_package_that_does_not_install_is_named_and_the_rest_goes_on(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def pip(environment: Environment, constraints: Path, requirements: list[str]) -> str:
            return "ERROR: no such package" if "broken==1" in requirements else ""

        monkeypatch.setattr(environments, "FOLDER", tmp_path)
        monkeypatch.setattr(environments, "_pip", pip)
        packages = Environment(
            "x",
            (f"{sys.version_info[0]}.{sys.version_info[1]}",),
            ("numpy",),
            packages=("good", "broken==1"),
        )
        record = environments.set_up(packages, lambda text: None)
        assert record.error == ""
        assert record.missing == {"broken": "ERROR: no such package"}
        assert (
            json.loads((tmp_path / "x" / "environment.json").read_text())["missing"]
            == record.missing
        )

    def test_a_rivals_process_has_nothing_of_the_users_variables(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_use_thunk_runtime=false")
        monkeypatch.setenv("TRIPONT_CPU", "x86-64-v2")
        variables = environments.process_environment(environments.RIVALS["jaxlib-newest"], 3)
        assert not {"XLA_FLAGS", "TRIPONT_CPU"} & variables.keys()
        assert variables["OMP_NUM_THREADS"] == "3"
        ours = environments.process_environment(environments.RIVALS["tripont"], 3)
        assert ours["TRIPONT_NUM_THREADS"] == "3"


def test_limits() -> None:
    found = limits.Limits(((1000, 4e9), (100_000, 1e9)), {"f32": 1e12})
    assert found.least_seconds(100_000, 1e6, "f32") == pytest.approx(1e-4)
    assert found.least_seconds(100, 1e9, "f32") == pytest.approx(1e-3)
    assert found.least_seconds(0, 1e9, "bf16") == 0.0
    assert limits.Limits(((1000, 4e9), (100_000, 1e9)), {}).bandwidth(2000) == 4e9
    slower = limits.Limits(((1000, 5e9), (100_000, 5e8)), {"f32": 5e11})
    assert found.best(slower) == limits.Limits(((1000, 5e9), (100_000, 1e9)), {"f32": 1e12})
    assert found.filled({"bf16": 1e10, "f32": 2e12}).flops == {"bf16": 1e10, "f32": 2e12}


def test_every_program_has_a_file_inputs_and_ours() -> None:
    for program in programs().values():
        assert "jax" in program.makers or "tensorflow" in program.makers, program.name
        assert store.digest(program)


def test_memory_is_counted_from_when_all_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of a framework give the arrays of the run before back while nobody waits for them."""
    said = iter([759, 759, 759, 500, 344, 345, *[344] * 20])
    monkeypatch.setattr(worker, "resident_bytes", lambda entry: next(said))
    monkeypatch.setattr(worker, "reset_peak", lambda: None)
    monkeypatch.setattr(worker.time, "sleep", lambda seconds: None)
    assert worker.settled_bytes() == 344
    falling = iter(range(10_000, 0, -1))
    monkeypatch.setattr(worker, "resident_bytes", lambda entry: next(falling))
    assert worker.settled_bytes() == 10_000 - worker.MOST_READINGS
