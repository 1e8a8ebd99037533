"""Two hosts (network namespaces) and what goes wrong with the cable between them: what each process says then.

``python -m tests.integration.hosts.two_hosts cut|late|never``: the cable is cut while a job runs, or carries only
a while after the job began, or never. The namespaces are those of examples/hosts.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.integration.hosts.presence import VARIABLE

ROOT = Path(__file__).parents[3]
COORDINATOR = "10.77.0.1:1234"


def _example() -> ModuleType:
    """examples/hosts/main.py, which is in no package."""
    spec = importlib.util.spec_from_file_location("hosts_main", ROOT / "examples/hosts/main.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _start(hosts: list[Any], worker: str) -> list[subprocess.Popen[str]]:
    """A process of the job on each host."""
    running = []
    for number, host in enumerate(hosts):
        command = [*host.command, sys.executable, "-m", "tests.integration.hosts.workers"]
        variables = {"TRIPONT_HOSTS_INTERFACE": host.interface, "TRIPONT_NUM_DEVICES": "1"}
        running.append(
            subprocess.Popen(
                [*command, worker, str(number), "2", COORDINATOR],
                cwd=ROOT,
                env=os.environ | variables | {"JAX_PLATFORMS": "xpu"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    return running


def _set(host: Any, *words: str) -> None:
    """Change a host's end of the cable."""
    command = ["ip", "-n", host.name, "link", "set", host.interface, *words]
    subprocess.run(command, check=True)


def cut(hosts: list[Any]) -> list[subprocess.Popen[str]]:
    """A job whose cable is cut when both processes have added something up."""
    running = _start(hosts, "network_breaks")
    for process in running:
        assert process.stdout is not None
        lines: list[str] = []
        while not lines or lines[-1].strip() != "READY":
            lines.append(process.stdout.readline())
            if not lines[-1]:
                raise SystemExit("a process failed before the network broke: " + "".join(lines))
    _set(hosts[0], "down")
    return running


def never(hosts: list[Any]) -> list[subprocess.Popen[str]]:
    """A job on a host whose interface is not running: messages pass, and yet MPI's libraries leave it out."""
    _set(hosts[1], "mode", "dormant")
    _set(hosts[1], "state", "dormant")
    return _start(hosts, "no_mpi")


def late(hosts: list[Any]) -> list[subprocess.Popen[str]]:
    """A job on a host whose interface runs only when the processes have begun."""
    running = never(hosts)
    time.sleep(3)
    _set(hosts[1], "state", "up")
    return running


def main() -> None:
    example = _example()
    if example.INSIDE not in os.environ:
        alone = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
        command = [*alone, sys.executable, "-m", "tests.integration.hosts.two_hosts", *sys.argv[1:]]
        os.execvpe(command[0], command, os.environ | {example.INSIDE: "1"})
    ways = {way.__name__: way for way in (cut, late, never)}
    with tempfile.TemporaryDirectory() as folder:
        os.environ[VARIABLE] = folder
        for number, process in enumerate(ways[sys.argv[1]](example.make_hosts())):
            output = process.communicate()[0].replace("\n", " ")
            print(f"HOST {number}: {output}")


if __name__ == "__main__":
    main()
