"""``tripont doctor --hosts``: two processes add arrays; what is missing is named."""

from __future__ import annotations

import json
import re

import pytest

from tripont.cli import doctor, hosts
from tripont.cli.finding import ERROR, OK, Finding


@pytest.mark.slow
def test_two_processes_on_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRIPONT_HOSTS_INTERFACE", raising=False)
    findings = {f.name: f for f in hosts.check()}
    assert list(findings) == ["MPI", "shared memory", "network", "processes"]
    assert all(f.status != ERROR for f in findings.values()), findings
    assert re.match(r".+, ABI 1\.\d, .*libmpi_abi\.so\.1$", findings["MPI"].detail)
    told = re.match(
        r"2 joined in .* s; all-reduce of 4 bytes (\d+) us, of 16 MB [\d.]+ ms",
        findings["processes"].detail,
    )
    assert told, findings
    assert int(told[1]) > 0


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes are not started then: they would wait for one another."""
    monkeypatch.setenv("TRIPONT_MPI_PATH", "/nowhere/libmpi_abi.so.1")
    monkeypatch.setenv("TRIPONT_HOSTS_INTERFACE", "nowhere0")
    findings = {f.name: f for f in hosts.check()}
    assert "processes" not in findings
    assert findings["MPI"].status == ERROR
    assert "/nowhere/libmpi_abi.so.1" in findings["MPI"].detail
    assert "tripont[hosts]" in findings["MPI"].fix
    assert findings["network"].status == ERROR
    assert "lo" in findings["network"].fix
    assert hosts.check_shared_memory("/nowhere").status == ERROR


def test_a_library_that_is_not_an_mpi(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRIPONT_MPI_PATH", "libc.so.6")
    finding = hosts.check_mpi()
    assert finding.status == ERROR
    assert "MPI_Abi_get_version" in finding.detail


@pytest.mark.parametrize("status", [OK, ERROR])
def test_the_command(
    status: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of the processes is the exit code, and they are tried only if they are asked for."""
    monkeypatch.setattr(doctor, "CHECKS", [])
    monkeypatch.setattr(doctor, "check_arithmetic", list)
    monkeypatch.setattr(hosts, "check", lambda: [Finding("MPI", status, "here")])
    assert doctor.run(json_output=True, hosts=True) == int(status == ERROR)
    assert [f["name"] for f in json.loads(capsys.readouterr().out)] == ["MPI"]
    assert doctor.run(json_output=True) == 0
    assert json.loads(capsys.readouterr().out) == []
