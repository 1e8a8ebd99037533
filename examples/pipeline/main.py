"""The demo: a transformer over four processes, each with a part of the layers, and the same numbers as in one.

python examples/pipeline/main.py [--schedule gpipe|1f1b|interleaved] [--microbatches M] [--steps N] [--pace S]

Four processes want four cores. Where there are fewer, --pace 0.05 lets every forward pass take at least 50 ms and every
backward pass 100 ms, as if the processes did not share cores, so that the timeline shows the schedule.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

from schedule import NAMES, Action, bubble, schedule, simulate

TRAIN = Path(__file__).with_name("train.py")
WIDTH = 100  # of the timeline, in characters


def run(arguments: argparse.Namespace, name: str, several: bool) -> list[dict[str, Any]]:
    """What the processes print: losses and the timeline of the last step."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, str(TRAIN), "--schedule", name]
    for option in ("stages", "microbatches", "steps"):
        command += [f"--{option}", str(getattr(arguments, option))]
    environment = os.environ | {"TRIPONT_NUM_DEVICES": "1"}
    if several:
        command += ["--coordinator", f"localhost:{port}", "--pace", str(arguments.pace)]
    started = [
        subprocess.Popen(
            [*command, "--process", str(p)], env=environment, stdout=subprocess.PIPE, text=True
        )
        for p in range(arguments.stages if several else 1)
    ]
    outputs = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("a process failed")
    return [json.loads(output.splitlines()[-1]) for output in outputs]


def draw(rows: list[list[tuple[bool, int, float, float]]]) -> list[str]:
    """A line for each process: the microbatch of each action, forward passes as digits, backward ones as letters."""
    begin = min(one[2] for row in rows for one in row)
    scale = WIDTH / (max(one[3] for row in rows for one in row) - begin)
    lines = []
    for row in rows:
        line = ["."] * WIDTH
        for forward, microbatch, start, end in row:
            symbol = (str(microbatch % 10)) if forward else chr(ord("a") + microbatch % 26)
            first = int((start - begin) * scale)
            for i in range(first, min(max(int((end - begin) * scale), first + 1), WIDTH)):
                line[i] = symbol
        lines.append("".join(line))
    return lines


def waiting(rows: list[list[tuple[bool, int, float, float]]]) -> float:
    """The share of the time from the first action to the last in which processes compute nothing."""
    total = max(one[3] for row in rows for one in row) - min(one[2] for row in rows for one in row)
    busy = sum(one[3] - one[2] for row in rows for one in row)
    return 1 - busy / total / len(rows)


def show(name: str, found: list[dict[str, Any]], microbatches: int) -> None:
    """The measured timeline, and that of the schedule with the measured mean times."""
    rows = [[(f, m, b, e) for f, _, m, b, e in one["timeline"]] for one in found]
    times = {
        forward: [e - b for row in rows for f, _, b, e in row if f is forward]
        for forward in (True, False)
    }
    mean = {forward: sum(t) / len(t) for forward, t in times.items()}
    actions = schedule(name, len(rows), microbatches)
    simulated = simulate(actions, mean[True], mean[False])
    ideal = [[_entry(a, simulated[a]) for a in of_process] for of_process in actions]
    print(
        f"{name}, last step, forward {mean[True] * 1e3:.0f} ms, backward {mean[False] * 1e3:.0f} ms"
    )
    for title, of_all in (("measured", rows), ("if every action took the mean", ideal)):
        print(f"  {title}: bubble {waiting(of_all):.0%}")
        for process, line in enumerate(draw(of_all)):
            print(f"    process {process} {line}")
    print(f"  theory: bubble {bubble(name, len(rows), microbatches):.0%}")


def _entry(action: Action, times: tuple[float, float]) -> tuple[bool, int, float, float]:
    return (action.forward, action.microbatch, *times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--schedule", choices=NAMES, help="one schedule instead of all")
    parser.add_argument("--stages", type=int, default=4)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--pace", type=float, default=0, help="seconds of a forward pass, at least")
    arguments = parser.parse_args()
    for name in (arguments.schedule,) if arguments.schedule else NAMES:
        several = run(arguments, name, several=True)
        (one,) = run(arguments, name, several=False)
        show(name, several, arguments.microbatches)
        (losses,) = (p["losses"] for p in several if p["losses"][0] is not None)
        print("losses:", *(f"{loss:.4f}" for loss in losses))
        if losses != one["losses"]:
            raise SystemExit(f"the losses differ: {losses}, and in one process {one['losses']}")
        print("They are those of one process, bit for bit.\n")


if __name__ == "__main__":
    main()
