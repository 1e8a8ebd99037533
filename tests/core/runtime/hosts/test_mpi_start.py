"""The coordinator's store fails, hangs or tells rubbish while MPI starts: errors in time, and no process ends.

Each test runs two processes on what are two machines to them (on one, MPI exchanges its addresses in shared memory).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.integration.hosts.faulty_mpi import build as build_faulty_mpi
from tripont.cli.hosts import mpi_library

ROOT = Path(__file__).parents[4]
# Seconds that a process waits for the other one, which has started: a healthy one needs a tenth of a second.
TIMEOUT = 4
PROCESS = r"process {} \([^)]*pid \d+\)"
FAILED = "the coordinator's store has failed while MPI started in {}, which {}: {}"
LATE = (
    rf"MPI has not started in all 2 processes of the job after \d+ s \({PROCESS} waits in "
    "MPI_Init_thread"
    r"{}; TRIPONT_COLLECTIVE_TIMEOUT sets how long to wait, in seconds\)"
)
ASKS = " for the coordinator's store, and {}"
TO_GATHER = "asks it for the addresses of process 1"
TO_GIVE = "asks it to take the addresses of all processes"
TO_TAKE = "asks it to take its addresses"
FOR_ALL = "asks it for the addresses of all processes"


@pytest.fixture(scope="module", autouse=True)
def _mpi() -> None:
    if not mpi_library():
        pytest.skip("needs MPI")


def _run(
    folder: Path, process: int, fault: str, variables: Mapping[str, str] | None = None
) -> list[dict[str, tuple[float, str]]]:
    """What each process prints: "CLIENT", "LOCAL", "SPANNING" and "CLOSED" with the seconds that each took, and "SAID",
    which is all of it. ``fault`` and ``variables`` of the environment are those of ``process``.
    """
    command = [sys.executable, "-m", "tests.core.runtime.hosts.member"]
    environment = {"TRIPONT_COLLECTIVE_TIMEOUT": str(TIMEOUT), "TRIPONT_HOSTS_INTERFACE": "lo"}
    running = [
        subprocess.Popen(
            [*command, str(number), str(folder), fault if number == process else ""],
            cwd=ROOT,
            env=os.environ | environment | dict((number == process and variables) or {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for number in range(2)
    ]
    found = []
    try:
        for member in running:
            output, _ = member.communicate(timeout=150)
            assert member.returncode == 0, output
            lines = re.findall(r"^([A-Z]+) after ([\d.]+) s: (.*)$", output, re.MULTILINE)
            found.append({name: (float(seconds), text) for name, seconds, text in lines})
            found[-1]["SAID"] = (0.0, output)
            [files] = re.findall(r"^SHARED(.*)$", output, re.MULTILINE)
            assert [name for name in files.split() if Path(name).exists()] == []
    finally:
        for member in running:
            member.kill()
            member.communicate()
    return found


def test_a_store_that_answers(tmp_path: Path) -> None:
    for one in _run(tmp_path, 0, ""):
        assert one["LOCAL"][1] == "2.0"
        assert one["SPANNING"][1] == "2.0"


@pytest.fixture(scope="module")
def faulty_mpi(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_faulty_mpi(tmp_path_factory.mktemp("mpi"))


def test_no_thread_can_watch(tmp_path: Path, faulty_mpi: str) -> None:
    """Both processes hear of it, and go on with programs of their own."""
    variables = {"TRIPONT_MPI_PATH": faulty_mpi, "FAULTY_MPI": "no_threads"}
    why = (
        PROCESS.format(1)
        + " has no MPI: there is no thread that could watch over what it waits for: "
    )
    for one in _run(tmp_path, 1, "", variables):
        assert one["LOCAL"][1] == "2.0"
        assert re.search(why, one["SPANNING"][1]), one


def test_no_threads_once_mpi_runs(tmp_path: Path, faulty_mpi: str) -> None:
    """A program that spans processes needs a thread of its device; both processes hear that there is none."""
    variables = {"TRIPONT_MPI_PATH": faulty_mpi, "FAULTY_MPI": "no_threads_later"}
    for one in _run(tmp_path, 1, "", variables):
        assert one["LOCAL"][1] == "2.0"
        assert "cannot start the thread of a device" in one["SPANNING"][1], one


def test_a_look_for_messages_finds_no_memory(tmp_path: Path, faulty_mpi: str) -> None:
    variables = {"TRIPONT_MPI_PATH": faulty_mpi, "FAULTY_MPI": "no_memory"}
    found = _run(tmp_path, 1, "", variables)
    for one in found:
        assert one["LOCAL"][1] == "2.0"
        assert one["SPANNING"][1] == "2.0"
    assert "while waits for other processes were watched: out of host memory" in found[1]["SAID"][1]


def _failed(process: int, request: str, reason: str) -> str:
    return FAILED.format(PROCESS.format(process), request, reason)


def _late(process: int, request: str = "") -> str:
    return LATE.format(process, ASKS.format(request) if request else "")


RUBBISH = "its answer is not what process {} has put"
NO_GATHERING = "process 0 could not gather them: {}"
#: The fault, the process that has it, and the errors of processes 0 and 1.
FAULTS = [
    (
        "get fails",
        0,
        _failed(0, TO_GATHER, "no connection for"),
        _failed(1, FOR_ALL, NO_GATHERING.format("no connection for")),
    ),
    ("get fails", 1, _late(0), _failed(1, FOR_ALL, "no connection for")),
    ("put fails", 0, _failed(0, TO_GIVE, "no connection for"), _late(1, FOR_ALL)),
    ("put fails", 1, _late(0, TO_GATHER), _failed(1, TO_TAKE, "no connection for")),
    ("get hangs", 0, _late(0, TO_GATHER), _late(1, FOR_ALL)),
    ("get hangs", 1, _late(0), _late(1, FOR_ALL)),
    ("put hangs", 0, _late(0, TO_GIVE), _late(1, FOR_ALL)),
    ("put hangs", 1, _late(0, TO_GATHER), _late(1, TO_TAKE)),
]
for _fault, _blamed in {"nothing": "0", "rubbish": "0", "half": "[01]", "other bytes": "1"}.items():
    _reason = RUBBISH.format(1)
    FAULTS += [
        (
            f"get tells {_fault}",
            0,
            _failed(0, TO_GATHER, _reason),
            _failed(1, FOR_ALL, NO_GATHERING.format(_reason)),
        ),
        (
            f"get tells {_fault}",
            1,
            _late(0),
            _failed(1, FOR_ALL, RUBBISH.format(_blamed)),
        ),
    ]


def _marks(fault: str, process: int) -> list[pytest.MarkDecorator]:
    # Process 1 says the same of each of these; in process 0 all of them run.
    if fault in ("get tells nothing", "get tells half") and process == 1:
        return [pytest.mark.slow, pytest.mark.nightly]
    return [] if (fault, process) == ("get tells rubbish", 0) else [pytest.mark.slow]


@pytest.mark.parametrize(
    ("fault", "process", "first", "second"),
    [
        pytest.param(
            *case,
            id=f"{case[0]} in {case[1]}",
            marks=_marks(*case[:2]),
        )
        for case in FAULTS
    ],
)
def test_a_store_with_a_fault(
    tmp_path: Path, fault: str, process: int, first: str, second: str
) -> None:
    """The client is made, programs of its own device run, and those of both say what failed where."""
    found = _run(tmp_path, process, fault)
    for one, expected in zip(found, (first, second), strict=True):
        assert one["LOCAL"][1] == "2.0"
        assert re.search("spans several processes: " + expected, one["SPANNING"][1]), one
        assert one["CLOSED"][0] < 30  # a call that hangs is left alone
