"""The demo: the same training in several processes, and in one with as many devices, which gives the same bits.

python examples/hosts/main.py [--processes N] [--steps N]
"""

from __future__ import annotations

import argparse
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

TRAIN = Path(__file__).with_name("train.py")


def run(processes: int, devices: int, steps: int) -> str:
    """What process 0 of a training prints."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        coordinator = f"localhost:{listener.getsockname()[1]}"
    environment = os.environ | {"TRIPONT_NUM_DEVICES": str(devices)}
    command = [sys.executable, str(TRAIN), "--steps", str(steps), "--coordinator", coordinator]
    command += ["--processes", str(processes), "--process"]
    start = time.perf_counter()
    started = [
        subprocess.Popen(
            [*command, str(number)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for number in range(processes)
    ]
    output = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a process failed")
    print(f"{processes} processes with {devices} devices each: {time.perf_counter() - start:.1f} s")
    print(output[0])
    return output[0].splitlines()[-1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    several = run(arguments.processes, 1, arguments.steps)
    one = run(1, arguments.processes, arguments.steps)
    if several != one:
        raise SystemExit(f"the losses differ: {several}, and in one process {one}")
    print("The losses are equal, bit for bit.")


if __name__ == "__main__":
    main()
