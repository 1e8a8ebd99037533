"""How long each thunk of a program takes: the artifact run on random numbers, in its own process.

In its own, because a program on random numbers may do anything: loop for ever, or fail in a
library.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tripont import helper_process

WARM_UP: Final = 2
RUNS: Final = 10
LONGEST_NS: Final = 1_000_000_000  # no further run is started after this
MOST_EVENTS: Final = 4000


@dataclass
class Timeline:
    """When each thunk ran in the fastest of several runs.

    ``events``: (number of the thunk, start in ns from the start of the run, duration in ns).
    ``reason``: why there is no measurement, empty if there is one.
    """

    events: list[tuple[int, int, int]] = field(default_factory=list)
    total_ns: int = 0
    runs: int = 0
    left_out: int = 0
    device: str = ""
    reason: str = ""


def measure(artifact: bytes, target: str, *, seconds: float = 20.0) -> Timeline:
    """Run an artifact. Never raises: a program that cannot run gives a Timeline with the reason."""
    if not artifact:
        return Timeline(reason="there is no artifact to run")
    with tempfile.TemporaryDirectory(prefix="tripont-explain-") as folder:
        program = Path(folder) / "program.tripont"
        program.write_bytes(artifact)
        try:
            done = subprocess.run(
                helper_process.module_command("tripont.explain.measure", str(program)),
                env=os.environ | {"TRIPONT_DEVICE": target, "TRIPONT_PRESTART_WORKER": "0"},
                capture_output=True,
                text=True,
                timeout=seconds,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Timeline(reason=f"the program did not end within {seconds:.0f} s")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        if done.returncode < 0:
            return Timeline(reason=f"the program was ended by signal {-done.returncode}")
        return Timeline(reason=lines[-1].removeprefix("error: ") if lines else "the program failed")
    answer = json.loads(done.stdout.splitlines()[-1])
    answer["events"] = [tuple(event) for event in answer["events"]]
    return Timeline(**answer)


def run(path: Path) -> dict[str, Any]:
    """In the process of its own: the fields of a Timeline."""
    import numpy as np

    from tripont.cli.client import bindings, make_client
    from tripont.cli.run import random_array

    module = bindings()
    client = make_client()
    device = client.devices[0]
    executable = client.load(path.read_bytes())
    parameters = executable.describe()["parameters"]
    generator = np.random.default_rng(0)
    arguments = [module.Buffer.from_array(random_array(p, generator), device) for p in parameters]
    kept = list(range(len(arguments)))
    best: list[tuple[int, int, int]] = []
    total = spent = runs = 0
    for number in range(WARM_UP + RUNS):
        module.start_profile()
        try:
            for result in executable.execute(device, arguments, kept):
                result.wait()
            device.synchronize()
        finally:
            events, _ = module.stop_profile()
        start = min((e[3] for e in events), default=0)
        length = max((e[4] for e in events), default=0) - start
        spent += length
        if number >= WARM_UP or spent > LONGEST_NS:
            runs += 1
            if not best or length < total:
                best, total = [(e[1], e[3] - start, e[4] - e[3]) for e in events], length
        if spent > LONGEST_NS:
            break
    kept_events = sorted(best, key=lambda e: -e[2])[:MOST_EVENTS]
    return {
        "events": sorted(kept_events, key=lambda e: (e[1], -e[2])),
        "total_ns": total,
        "runs": runs,
        "left_out": len(best) - len(kept_events),
        "device": device.description,
    }


def main() -> None:
    from tripont.cli.client import bindings

    try:
        print(json.dumps(run(Path(sys.argv[1]))))
    except bindings().StatusError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
