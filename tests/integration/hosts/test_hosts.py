"""Several processes as one job, over MPI: JAX's interface, collectives bit for bit, and what goes wrong."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from . import processes
from .faulty_mpi import build as build_faulty_mpi

# A process of the job is named with its machine and number.
PROCESS = r"process {} \([^)]*pid \d+\)"


def test_what_jax_asks_for() -> None:
    ended = processes.run("jax_interface", devices=2)
    processes.check(ended)
    assert all("OK" in e.output for e in ended)


def _slurm(process: int, job: int) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": str(job),
        "SLURM_STEP_NODELIST": "localhost",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": str(process),
        "SLURM_LOCALID": str(process),
    }


def _open_mpi(process: int, job: int) -> dict[str, str]:
    return {
        "OMPI_MCA_orte_hnp_uri": f"{job}.0;tcp://127.0.0.1:51911",
        "OMPI_COMM_WORLD_SIZE": "2",
        "OMPI_COMM_WORLD_RANK": str(process),
        "OMPI_COMM_WORLD_LOCAL_RANK": str(process),
    }


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [_slurm, _open_mpi])
def test_jax_finds_the_job(launcher: Callable[[int, int], dict[str, str]]) -> None:
    """As under Slurm and Open MPI: JAX makes the coordinator's port of the number of the job."""
    job = processes.free_port()
    ended = processes.run("detected", of_process={p: launcher(p, job) for p in range(2)})
    processes.check(ended)
    for process, one in enumerate(ended):
        assert f"PROCESS {process} of 2 sum 2.0" in one.output


@pytest.mark.slow
def test_under_mpiexec() -> None:
    """MPI's own launcher has a process manager, which is not asked: JAX's coordinator has told the processes."""
    mpiexec = Path(sys.executable).with_name("mpiexec")
    if not mpiexec.exists():
        pytest.skip("needs the mpiexec of the package mpich")
    program = (
        "import os, sys; from tests.integration.hosts import workers; "
        "workers.join(int(os.environ['PMI_RANK']), int(os.environ['PMI_SIZE']), sys.argv[1]); "
        "workers.detected()"
    )
    ended = subprocess.run(
        [str(mpiexec), "-n", "2", sys.executable, "-c", program, str(processes.free_port())],
        cwd=Path(__file__).parents[3],
        env=os.environ | {"TRIPONT_NUM_DEVICES": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.LIMIT,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for process in range(2):
        assert f"PROCESS {process} of 2 sum 2.0" in ended.stdout


def test_arrays_go_to_devices_of_another_process() -> None:
    ended = processes.run("transfers", devices=2)
    processes.check(ended)
    assert all("OK" in e.output for e in ended)


@pytest.fixture(scope="module")
def one_process(tmp_path_factory: pytest.TempPathFactory) -> dict[str, np.ndarray]:
    """The results of four devices in one process."""
    folder = tmp_path_factory.mktemp("one")
    processes.check(processes.run("collectives", folder, processes=1, devices=4))
    return dict(np.load(folder / "0.npz"))


def _check_collectives(
    folder: Path, expected: dict[str, np.ndarray], count: int, devices: int
) -> None:
    processes.check(processes.run("collectives", folder, processes=count, devices=devices))
    for process in range(count):
        results = dict(np.load(folder / f"{process}.npz"))
        assert results.keys() == expected.keys()
        different = [k for k in expected if not np.array_equal(expected[k], results[k])]
        assert different == [], f"process {process}"


def test_collectives_of_two_processes_with_two_devices(
    tmp_path: Path, one_process: dict[str, np.ndarray]
) -> None:
    _check_collectives(tmp_path, one_process, 2, 2)


@pytest.mark.slow
def test_collectives_of_four_processes(tmp_path: Path, one_process: dict[str, np.ndarray]) -> None:
    _check_collectives(tmp_path, one_process, 4, 1)


def test_collectives_run_beside_the_computation(tmp_path: Path) -> None:
    """Process 1 launches the program only after what process 0 computes behind the beginning of its all-reduce."""
    ended = processes.run("overlaps", tmp_path, environment={"TRIPONT_COLLECTIVE_TIMEOUT": "60"})
    processes.check(ended)
    assert all("OK" in e.output for e in ended)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "devices"), [(2, 1), (2, 2)])
def test_gradients_in_flight_have_the_bits_of_one_process(
    tmp_path: Path, count: int, devices: int
) -> None:
    (tmp_path / "one").mkdir()
    one = processes.run("trains", tmp_path / "one", processes=1, devices=count * devices)
    processes.check(one)
    expected = dict(np.load(tmp_path / "one" / "0.npz"))
    ended = processes.run("trains", tmp_path, processes=count, devices=devices)
    processes.check(ended)
    for process in range(count):
        found = re.search(r"DONES (\d+)", ended[process].output)
        assert found
        assert int(found[1]) > 0, ended[process].output
        results = dict(np.load(tmp_path / f"{process}.npz"))
        assert [k for k in expected if not np.array_equal(expected[k], results[k])] == []


@pytest.mark.slow
def test_a_program_that_fails_while_collectives_are_in_flight() -> None:
    errors = _errors(processes.run("fails_in_flight"))
    assert errors[0][0] < errors[1][0] + 8
    assert all("bad batch" in error for _, error in errors), errors


@pytest.mark.slow
def test_an_all_reduce_in_batches() -> None:
    """Of at most 64 MB (kTogetherBytes): three arrays need three, with a small one beside the first."""
    ended = processes.run("all_reduce_in_batches")
    processes.check(ended)
    assert all("ALL-REDUCES 1\nOK" in e.output for e in ended), ended


@pytest.mark.slow
def test_a_job_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """Orbax's, of an array that is sharded over the processes; one of them has died. The new job has the same bits."""
    pytest.importorskip("orbax.checkpoint", reason="needs orbax-checkpoint, which flax brings")
    alone = {"JAX_PLATFORMS": "xpu"}
    ended = processes.run("checkpoint", tmp_path, "dies", devices=2, environment=alone)
    assert ended[1].status == -9, ended
    assert "has ended or died" in _errors(ended[:1])[0][1]
    for what in ("goes on", "whole"):
        processes.check(processes.run("checkpoint", tmp_path, what, devices=2, environment=alone))
    again, whole = (np.load(tmp_path / f"{what}.npz")["x"] for what in ("goes on", "whole"))
    assert np.array_equal(again, whole)


def _errors(ended: list[processes.Ended]) -> list[tuple[float, str]]:
    """After how many seconds each process had an error, and which."""
    errors = []
    for one in ended:
        found = re.search(r"ERROR after ([\d.]+) s: (.*)", one.output, re.DOTALL)
        assert found, one.output
        errors.append((float(found[1]), found[2]))
    return errors


@pytest.mark.slow
def test_a_process_dies() -> None:
    ended = processes.run("dies")
    [(seconds, error)] = _errors(ended[:1])
    assert ended[1].status == -9
    assert seconds < 60
    assert "all-reduce" in error
    assert "program jit_sum" in error
    assert re.search("xpu:0 waits in .* for xpu:1 of " + PROCESS.format(1), error)
    assert "has ended or died" in error


@pytest.mark.slow
def test_a_process_dies_under_threads() -> None:
    """Every thread that waits has an error, and so has the program that comes after, at once."""
    ended = processes.run("dies_under_threads", devices=2)
    waited = re.findall(r"^THREAD (\d) after ([\d.]+) s: (.*)$", ended[0].output, re.MULTILINE)
    assert sorted(number for number, _, _ in waited) == ["0", "1"], ended[0].output
    for number, seconds, error in waited:
        assert float(seconds) < 60
        assert re.search(rf"xpu:{number} waits in .*|{PROCESS.format(1)}", error)
    [(_, error)] = _errors(ended[:1])
    assert re.search(PROCESS.format(1) + ", which has ended or died", error)


@pytest.mark.slow
def test_a_client_after_another() -> None:
    # JAX's own CPU device tells its topology twice then, which its store refuses.
    ended = processes.run("client_again", environment={"JAX_PLATFORMS": "xpu"})
    assert all("2.0\nNO ERROR" in e.output for e in ended), ended


@pytest.mark.slow
def test_a_process_does_not_answer() -> None:
    ended = processes.run("stops")
    [(seconds, error)] = _errors(ended[:1])
    assert seconds < 60
    assert re.search(PROCESS.format(1) + ", which did not answer for 8 s", error)


@pytest.mark.slow
def test_another_program() -> None:
    errors = _errors(processes.run("other_program"))
    assert all(seconds < 60 for seconds, _ in errors)
    for process, (_, error) in enumerate(errors):
        assert "jit_red" in error
        assert "jit_blue" in error
        assert f"xpu:{1 - process} of process {1 - process}" in error
        assert "do not run the same programs in the same order" in error


@pytest.mark.slow
def test_another_size() -> None:
    """One process sends little, in one message, and ends its exchange with an error; the other expects more."""
    errors = _errors(processes.run("other_sizes"))
    assert all(seconds < 60 for seconds, _ in errors), errors
    assert not any("has ended or died" in error for _, error in errors), errors
    assert any("do not run the same programs in the same order" in error for _, error in errors)


@pytest.mark.slow
def test_another_size_of_large_arrays() -> None:
    errors = _errors(processes.run("other_large_sizes"))
    for process, (seconds, error) in enumerate(errors):
        assert seconds < 60
        assert f"xpu:{1 - process} of process {1 - process}" in error
        assert "do not run the same programs in the same order" in error


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "difference"),
    [
        (
            "members",
            ["all-reduce (add) of collectives 0, 1 ", "all-reduce (add) of collectives 0, 2 "],
        ),
        (
            "operation",
            ["all-reduce (add) of collectives 2, 3 ", "all-reduce (add) of collective 2 "],
        ),
        ("number", ["all-reduce (add) of collectives 2, 3 ", "all-reduce (add) of collective 2 "]),
    ],
)
def test_collectives_that_are_not_the_same(what: str, difference: list[str]) -> None:
    """Programs of one name whose calls exchange as much, of other sums: an error that names both, in both."""
    errors = _errors(processes.run("other_collectives", what))
    for process, (seconds, error) in enumerate(errors):
        assert seconds < 60
        assert "do not run the same programs in the same order" in error
        found = re.search(r"the first .* differ is here: (.*); there: (.*)", error)
        assert found, error
        here, there = difference if process == 0 else reversed(difference)
        assert found[1].startswith(here), error
        assert found[2].startswith(there), error


@pytest.mark.slow
def test_a_process_that_is_late_to_say_how_it_differs() -> None:
    """Process 1 is stopped when its message is there, and says only six seconds later what its collectives are."""
    errors = _errors(processes.run("other_collectives", "operation", 6))
    for process, (_, error) in enumerate(errors):
        assert "the first collective in which their programs differ is here" in error, process


@pytest.mark.slow
def test_programs_with_the_same_collectives_are_told_apart_by_name() -> None:
    """The number of a program is that of its own name, whichever of the two a process loads first."""
    ended = processes.run("same_collectives")
    processes.check(ended)
    assert all("sums 2.0 6.0\nNO ERROR" in e.output for e in ended), ended


@pytest.mark.slow
def test_all_processes_pause() -> None:
    ended = processes.run("paused")
    assert all("2.0\nNO ERROR" in e.output for e in ended), ended


@pytest.mark.slow
def test_another_group_of_devices() -> None:
    errors = _errors(processes.run("other_group", devices=2))
    assert all(seconds < 60 for seconds, _ in errors)
    assert any(
        "runs another program" in error and "jit_all_four" in error and "jit_two_of_them" in error
        for _, error in errors
    ), errors


@pytest.mark.slow
def test_a_failing_callback_reaches_the_others() -> None:
    errors = _errors(processes.run("callback_fails"))
    # Both have compiled the program first, which may take long beside other work.
    assert errors[0][0] < errors[1][0] + 8
    assert "bad batch" in errors[1][1]
    assert "bad batch" in errors[0][1]
    assert re.search("which will not come: it has failed", errors[0][1])


@pytest.mark.slow
def test_a_long_reason_reaches_the_others() -> None:
    """Shortened to what MPI sends at once, between letters of two bytes: its beginning and its end."""
    errors = _errors(processes.run("callback_fails", 20_000))
    assert errors[0][0] < errors[1][0] + 8
    assert re.search("which will not come: it has failed", errors[0][1])
    assert "in the end" in errors[0][1]
    assert " ... ä" in errors[0][1]


@pytest.mark.slow
def test_a_late_process_is_waited_for() -> None:
    ended = processes.run("late", 3)
    assert all("2.0\nNO ERROR" in e.output for e in ended), ended


@pytest.mark.slow
def test_a_process_that_does_not_come_in_time() -> None:
    ended = processes.run("late", 10, environment={"TRIPONT_COLLECTIVE_TIMEOUT": "2"})
    [(seconds, error)] = _errors(ended[:1])
    assert seconds < 60
    assert re.search("which has not come for [23] s", error)
    assert "TRIPONT_COLLECTIVE_TIMEOUT" in error


@pytest.mark.slow
def test_without_mpi() -> None:
    """It is enough that one process has none."""
    ended = processes.run(
        "no_mpi", of_process={1: {"TRIPONT_MPI_PATH": "/nonexistent/libmpi_abi.so.1"}}
    )
    for one, (_, error) in zip(ended, _errors(ended), strict=True):
        assert "local 3.0" in one.output
        assert "program jit_sum spans several processes" in error
        assert re.search(PROCESS.format(1) + " has no MPI", error)
        assert "tripont[hosts]" in error


@pytest.fixture(scope="module")
def faulty_mpi(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_faulty_mpi(tmp_path_factory.mktemp("mpi"))


@pytest.mark.slow
def test_a_process_dies_while_mpi_starts(faulty_mpi: str) -> None:
    """The others know it at once, and go on with programs of their own."""
    ended = processes.run(
        "no_mpi",
        environment={"TRIPONT_MPI_PATH": faulty_mpi},
        of_process={1: {"FAULTY_MPI": "dies_in_start"}},
    )
    assert ended[1].status == -9
    [(_, error)] = _errors(ended[:1])
    assert "local 3.0" in ended[0].output
    assert "program jit_sum spans several processes" in error
    assert re.search(PROCESS.format(1) + " has ended or died while MPI started", error)


@pytest.mark.slow
def test_a_process_dies_in_mpis_initialisation(faulty_mpi: str) -> None:
    ended = processes.run(
        "no_mpi",
        environment={"TRIPONT_MPI_PATH": faulty_mpi},
        of_process={1: {"FAULTY_MPI": "dies_at_once"}},
    )
    assert [e.status for e in ended] == [0, -9], ended
    [(_, error)] = _errors(ended[:1])
    assert "local 3.0" in ended[0].output
    assert re.search(PROCESS.format(1) + " has ended or died while MPI started", error)


@pytest.mark.slow
def test_mpi_does_not_start_in_time(faulty_mpi: str) -> None:
    """Neither where its initialisation hangs, nor where that waits for the process in which it does."""
    ended = processes.run(
        "no_mpi",
        environment={"TRIPONT_MPI_PATH": faulty_mpi, "TRIPONT_COLLECTIVE_TIMEOUT": "8"},
        of_process={1: {"FAULTY_MPI": "never_starts"}},
    )
    processes.check(ended)
    for number, (one, (_, error)) in enumerate(zip(ended, _errors(ended), strict=True)):
        assert "local 3.0" in one.output
        assert "program jit_sum spans several processes" in error
        # A busy machine looks later.
        after = re.search(r"MPI has not started in all 2 processes of the job after (\d+) s", error)
        assert after
        assert int(after[1]) >= 8
        assert re.search(PROCESS.format(number) + " waits in MPI_Init_thread", error)
        assert "TRIPONT_COLLECTIVE_TIMEOUT" in error


@pytest.mark.slow
def test_mpi_fails_in_a_collective(faulty_mpi: str) -> None:
    """The errors of both processes name the processes, devices, collective and program, and so do those that follow."""
    ended = processes.run(
        "sums_twice",
        environment={"TRIPONT_MPI_PATH": faulty_mpi},
        of_process={1: {"FAULTY_MPI": "fails_to_send"}},
    )
    names = (
        f"xpu:1 of {PROCESS.format(1)} is in all-reduce 0 of program jit_sum with xpu:0 of "
        f"{PROCESS.format(0)}: MPI, MPI_Isend: "
    )
    for process, (seconds, error) in enumerate(_errors(ended)):
        assert seconds < 60
        assert re.search(names, error), error
        [later] = re.findall(r"^LATER (.*)$", ended[process].output, re.MULTILINE)
        assert f"program jit_sum cannot begin on xpu:{process}, because the job has failed" in later
        assert re.search(names, later), later


@pytest.mark.slow
def test_a_sender_gives_up_before_its_memory_is_free(faulty_mpi: str) -> None:
    """Its receiver does not take what has come for the array: the memory may have been another array's by then."""
    ended = processes.run(
        "hands_on",
        environment={"TRIPONT_MPI_PATH": faulty_mpi},
        of_process={0: {"FAULTY_MPI": "sends_no_receipt"}},
    )
    for _, error in _errors(ended):
        assert "MPI, MPI_Isend: " in error


@pytest.mark.slow
def test_a_client_outside_of_the_job() -> None:
    ended = processes.run("alone_too", devices=2)
    assert all("alone [[3. 3. 3. 3.]]\nNO ERROR" in e.output for e in ended), ended
    # Device 0 of a client that is alone is another one in each process, and draws the same numbers in all; the
    # job's devices have ids of their own.
    for name, different in {"drawn": 1, "in the job": 2}.items():
        lines = [re.search(rf"^{name} (\[.*\])$", e.output, re.MULTILINE) for e in ended]
        assert all(lines), ended
        assert len({line[1] for line in lines if line}) == different, (name, lines)


@pytest.mark.slow
def test_a_forked_child_is_refused() -> None:
    for process, one in enumerate(processes.run("forked")):
        assert re.search(
            r"ERROR after \d\.\d s: .*" + f"was forked from process {process} ", one.output
        )
        assert "child 0\nparent 2.0" in one.output


def _another_pid_namespace() -> str:
    """Why a process cannot have one; empty if it can."""
    command = ["unshare", "-Urpf", "--mount-proc", "true"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except FileNotFoundError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.skipif(bool(_another_pid_namespace()), reason=_another_pid_namespace() or "it can be")
@pytest.mark.parametrize("name", ["", "nowhere0"])
def test_one_process_has_no_network(name: str) -> None:
    """All are told at once, on what are two machines to them: no process waits in MPI's start for the other."""
    ended = processes.run(
        "no_mpi",
        of_process={0: {"TRIPONT_HOSTS_INTERFACE": "lo"}, 1: {"TRIPONT_HOSTS_INTERFACE": name}},
        under={1: ["unshare", "-Urpf", "--mount-proc"]},
    )
    for one, (_, error) in zip(ended, _errors(ended), strict=True):
        assert "local 3.0" in one.output
        assert "the job's processes are on several machines" in error
        assert re.search(PROCESS.format(1) + " has no network for MPI", error)
        assert (
            f"TRIPONT_HOSTS_INTERFACE={name}," if name else "set TRIPONT_HOSTS_INTERFACE"
        ) in error


@pytest.mark.slow
def test_nothing_listens_and_nothing_is_left() -> None:
    # JAX's own CPU device would listen for Gloo.
    ended = processes.run("listening", environment={"JAX_PLATFORMS": "xpu", "UCX_TLS": "all"})
    processes.check(ended)
    coordinator, other = (re.findall(r"LISTENS \w+ (\d+)", e.output) for e in ended)
    assert len(set(coordinator)) == 1, coordinator  # JAX's
    assert other == []
    assert all(
        "ENVIRONMENT ['UCX_TLS=all']" in e.output and "LEFT [] True" in e.output for e in ended
    ), ended


@pytest.mark.slow
def test_two_jobs_on_one_machine_do_not_meet(tmp_path: Path) -> None:
    command = [sys.executable, "-c"]
    source = (
        "import sys; from tests.integration.hosts import processes; "
        "processes.check(processes.run('collectives', sys.argv[1], devices=2))"
    )
    jobs = []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        jobs.append(
            subprocess.Popen(
                [*command, source, str(folder)], cwd=Path(__file__).parents[3], env=os.environ
            )
        )
    assert [job.wait(processes.LIMIT) for job in jobs] == [0, 0]
    first, second = (dict(np.load(tmp_path / str(n) / "0.npz")) for n in range(2))
    assert all(np.array_equal(first[k], second[k]) for k in first)


def _example(*arguments: str) -> str:
    main = Path(__file__).parents[3] / "examples" / "hosts" / "main.py"
    result = subprocess.run(
        [sys.executable, str(main), "--steps", "5", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def _namespaces() -> str:
    """Why a user cannot make network namespaces here; empty if that works."""
    command = ["unshare", "--user", "--map-root-user", "--net", "--mount", "ip", "netns", "list"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except FileNotFoundError as error:
        return str(error)


def _two_hosts(what: str) -> list[str]:
    """What the processes of both hosts print."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.integration.hosts.two_hosts", what],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
        timeout=processes.LIMIT,
    )
    printed = re.findall(r"^HOST \d: (.*)$", result.stdout, re.MULTILINE)
    assert result.returncode == 0, result.stdout + result.stderr
    assert len(printed) == 2, result.stdout + result.stderr
    return printed


@pytest.mark.slow
@pytest.mark.skipif(bool(_namespaces()), reason=_namespaces() or "it can be")
def test_a_network_that_breaks() -> None:
    """The cable between two hosts is cut in the middle of their work: both have an error, and neither hangs."""
    for printed in _two_hosts("cut"):
        found = re.search(r"QUIET for ([\d.]+) s.*?ERROR.*", printed)
        assert found, printed
        assert float(found[1]) < 20
        assert re.search(r"did not answer for 8 s|which will not come: it has failed", found[0])


@pytest.mark.slow
@pytest.mark.skipif(bool(_namespaces()), reason=_namespaces() or "it can be")
def test_an_interface_that_does_not_run() -> None:
    """MPI's libraries leave the interface out and end the process, so MPI is not started: both are told why."""
    for printed in _two_hosts("never"):
        assert "local 3.0" in printed
        assert re.search(PROCESS.format(1) + " has no network for MPI", printed), printed
        assert (
            "TRIPONT_HOSTS_INTERFACE=second-eth, but this network interface is down or has no "
            "carrier"
        ) in printed


@pytest.mark.slow
@pytest.mark.skipif(bool(_namespaces()), reason=_namespaces() or "it can be")
def test_an_interface_that_is_coming_up() -> None:
    for printed in _two_hosts("late"):
        assert "local 3.0" in printed
        assert "NO ERROR" in printed


@pytest.mark.slow
def test_the_example() -> None:
    """Tensor parallel and fully sharded; data parallel if the test on two hosts is not there."""
    ways = ["tensor", "fsdp", *(["data"] if _namespaces() else [])]
    assert _example("--parallel", *ways).count("The losses are equal, bit for bit.") == len(ways)


@pytest.mark.slow
@pytest.mark.skipif(bool(_namespaces()), reason=_namespaces() or "it can be")
def test_the_example_on_two_hosts() -> None:
    """Messages cross the network between two network namespaces: more than 20 KB of gradients in each step."""
    output = _example("--two-hosts", "--parallel", "data")
    assert "The losses are equal, bit for bit." in output
    for host in ("first", "second"):
        found = re.search(rf"{host} received ([\d,]+) bytes over the network", output)
        assert found, output
        assert int(found[1].replace(",", "")) > 5 * 20_000
