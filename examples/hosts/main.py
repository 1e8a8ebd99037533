"""The demo: the same training in several processes, and in one with as many devices, which gives the same bits.

python examples/hosts/main.py [--parallel data tensor fsdp] [--processes N] [--steps N] [--two-hosts]

With --two-hosts the processes are on what are two machines to them: each has its own network interface, host name,
process numbers and shared memory, and MPI goes over the virtual cable between both (Linux namespaces).
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

TRAIN = Path(__file__).with_name("train.py")
WIDTH = 64  # of the narrowest layers, which are split over the processes (train.py)
WAYS = ("data", "tensor", "fsdp")
INSIDE = "TRIPONT_EXAMPLE_IN_NAMESPACES"


def start(
    way: str, processes: int, devices: int, steps: int, hosts: Sequence[Host]
) -> list[subprocess.Popen[str]]:
    """Start the processes of a training; those on hosts take turns on them."""
    coordinator = "10.77.0.1:1234" if hosts else f"localhost:{_free_port()}"
    environment = os.environ | {"TRIPONT_NUM_DEVICES": str(devices)}
    started = []
    for number in range(processes):
        host = hosts[number % len(hosts)] if hosts else None
        command = [*(host.command if host else ()), sys.executable, str(TRAIN)]
        command += ["--parallel", way, "--steps", str(steps), "--coordinator", coordinator]
        command += ["--processes", str(processes), "--process", str(number)]
        if host:
            environment["TRIPONT_HOSTS_INTERFACE"] = host.interface
            environment["JAX_PLATFORMS"] = "xpu"  # JAX's CPU device looks its host name up
        started.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
        )
    return started


def run(way: str, processes: int, devices: int, steps: int, hosts: Sequence[Host] = ()) -> str:
    """What process 0 of a training prints last."""
    begin = time.perf_counter()
    started = start(way, processes, devices, steps, hosts)
    output = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a process failed")
    where = f"{processes} processes" + (" on two hosts" if hosts else "")
    print(f"{way}, {where}, {devices} devices each: {time.perf_counter() - begin:.1f} s")
    print(output[0])
    return output[0].splitlines()[-1]


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# ----------------------------------------------------------------------------------------------------------------
# two hosts on one machine


class Host:
    """One end of a virtual network cable, in a network namespace of its own."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.interface = f"{name}-eth"
        self.address = address

    @property
    def command(self) -> list[str]:
        """What comes before a command to run it on this host."""
        setup = f'mount -t tmpfs tmpfs /dev/shm; hostname {self.name}; exec "$@"'
        alone = ["unshare", "--mount", "--pid", "--fork", "--mount-proc", "--uts", "--ipc"]
        return ["ip", "netns", "exec", self.name, *alone, "sh", "-c", setup, "sh"]

    def received(self) -> int:
        """Bytes that came over the cable."""
        command = ["ip", "netns", "exec", self.name, "cat"]
        file = f"/sys/class/net/{self.interface}/statistics/rx_bytes"
        return int(subprocess.run([*command, file], capture_output=True, check=True).stdout)

    def wait_for_cable(self, seconds: float = 10) -> None:
        """Until the system says that the interface carries, which is a moment after the command that sets it up."""
        command = ["ip", "-n", self.name, "-br", "link", "show", self.interface]
        end = time.monotonic() + seconds
        while True:
            state = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            if state.split()[1] == "UP":
                return
            if time.monotonic() > end:
                raise SystemExit(f"the virtual cable does not carry after {seconds} s: {state}")
            time.sleep(0.01)


def enter_namespaces() -> None:
    """Run this program again as the administrator of new, empty namespaces. Does not return."""
    alone = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
    try:
        tried = subprocess.run([*alone, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(
            "--two-hosts needs the commands unshare (util-linux) and ip (iproute2)"
        ) from None
    if tried.returncode:
        raise SystemExit(f"this machine does not let its users make namespaces: {tried.stderr}")
    os.execvpe(alone[0], [*alone, sys.executable, *sys.argv], os.environ | {INSIDE: "1"})


def make_hosts() -> list[Host]:
    """Two hosts with a cable between them."""
    hosts = [Host("first", "10.77.0.1/24"), Host("second", "10.77.0.2/24")]
    first, second = hosts
    commands = ["mount -t tmpfs tmpfs /run", *(f"ip netns add {h.name}" for h in hosts)]
    commands.append(
        f"ip link add {first.interface} netns {first.name} type veth "
        f"peer name {second.interface} netns {second.name}"
    )
    for host in hosts:
        commands.append(f"ip -n {host.name} addr add {host.address} dev {host.interface}")
        commands.append(f"ip -n {host.name} link set lo up")
        commands.append(f"ip -n {host.name} link set {host.interface} up")
    for command in commands:
        subprocess.run(command.split(), check=True)
    for host in hosts:
        host.wait_for_cable()
    return hosts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--parallel", choices=WAYS, nargs="+", default=WAYS, help="ways instead of all"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--two-hosts", action="store_true")
    arguments = parser.parse_args()
    if arguments.processes < 1 or WIDTH % arguments.processes:
        parser.error(
            f"--processes {arguments.processes} does not divide {WIDTH}, the width of the layers"
        )
    if arguments.two_hosts and INSIDE not in os.environ:
        enter_namespaces()
    hosts = make_hosts() if arguments.two_hosts else []
    for way in arguments.parallel:
        before = [host.received() for host in hosts]
        several = run(way, arguments.processes, 1, arguments.steps, hosts)
        for host, bytes_before in zip(hosts, before, strict=True):
            print(f"{host.name} received {host.received() - bytes_before:,} bytes over the network")
        one = run(way, 1, arguments.processes, arguments.steps)
        if several != one:
            raise SystemExit(f"the losses differ: {several}, and in one process {one}")
        print("The losses are equal, bit for bit.\n")


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
