"""Two hosts (network namespaces) whose cable is cut while a job runs on them: what each process says then.

``python -m tests.integration.hosts.two_hosts``; the namespaces are those of examples/hosts.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

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


def main() -> None:
    example = _example()
    if example.INSIDE not in os.environ:
        alone = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
        command = [*alone, sys.executable, "-m", "tests.integration.hosts.two_hosts"]
        os.execvpe(command[0], command, os.environ | {example.INSIDE: "1"})
    running = []
    hosts = example.make_hosts()
    for number, host in enumerate(hosts):
        command = [*host.command, sys.executable, "-m", "tests.integration.hosts.workers"]
        variables = {"TRIPONT_HOSTS_INTERFACE": host.interface, "TRIPONT_NUM_DEVICES": "1"}
        running.append(
            subprocess.Popen(
                [*command, "network_breaks", str(number), "2", COORDINATOR],
                cwd=ROOT,
                env=os.environ | variables | {"JAX_PLATFORMS": "xpu"},
                stdout=subprocess.PIPE,
                text=True,
            )
        )
    for process in running:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "READY":
            if process.poll() is not None:
                raise SystemExit("a process failed before the network broke")
    first = hosts[0]
    subprocess.run(["ip", "-n", first.name, "link", "set", first.interface, "down"], check=True)
    for number, process in enumerate(running):
        output = process.communicate()[0].replace("\n", " ")
        print(f"HOST {number}: {output}")


if __name__ == "__main__":
    main()
