"""Nanoseconds from the call of ``Executable::Execute`` to its results, for tiny programs of one kernel and N results.

Run: ``python -m benchmarks.dispatch [N ...]``. Each is the least of 12 runs of 5,000 executions; without a framework.
"""

from __future__ import annotations

import sys

import numpy as np
from tripont.core import _tripont


def program(results: int) -> bytes:
    """StableHLO that adds another number to 8 floats for each result."""
    kind = "tensor<8xf32>"
    kinds = ", ".join([kind] * results)
    body = [
        f"%c{i} = stablehlo.constant dense<{i}.0> : {kind} %r{i} = stablehlo.add %x, %c{i} : {kind}"
        for i in range(results)
    ]
    names = ", ".join(f"%r{i}" for i in range(results))
    return f"func.func @main(%x: {kind}) -> ({kinds}) {{ {' '.join(body)} return {names} : {kinds} }}".encode()


def main(numbers: list[int]) -> None:
    client = _tripont.Client({"prestart_worker": False})
    device = client.devices[0]
    x = _tripont.Buffer.from_array(np.zeros(8, np.float32), device)
    measure = _tripont.testing.nanoseconds_per_execution
    print("results  ns an execution  ns a result")
    for number in numbers:
        executable = _tripont.Executable.load(client.compile(program(number))[0])
        least = min(measure(executable, device, [x], 5000) for _ in range(12))
        print(f"{number:7}  {least:15.1f}  {least / number:11.1f}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [1, 2, 4, 7, 8, 9, 10, 12, 16, 24])
