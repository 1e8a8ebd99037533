"""A rival's process: one request a line on standard input, one answer a line on standard output, both JSON.

| request | answer |
|---|---|
| ``describe`` | ``version`` |
| ``prepare``: ``program``, ``results`` (a path) | ``compile_seconds`` or null, ``call_seconds`` |
| ``reference``: ``program``, ``results`` (two paths), ``wide``, ``rounding`` | nothing: it is in the paths |
| ``turn``: ``seconds``, ``clock`` | ``seconds``: of every call of the program that was prepared last; cpu: their mean |
| ``memory``: ``program`` | ``peak_bytes``: the most of inputs, results and temporaries at once |
| ``limits`` | ``limits``: what the machine can do (rivals/limits.py) |

A request is ``{"do": name, ...}``. ``prepare`` writes the results to the path, as .npz.
``memory`` wants a process of its own (``environments.EXACT_MEMORY``): one that gives freed memory back at once.
Every answer has ``error``: "" or what happened. What frameworks print goes to standard error. The process
ends with its input, and with the process that started it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from . import limits
from .frameworks import FRAMEWORKS, Framework
from .program import Program, programs

PR_SET_PDEATHSIG: Final = 1
CLOCKS: Final = ("wall", "cpu")
READING_SECONDS: Final = 0.1  # between two readings of what a process holds
STEADY: Final = 5  # as many readings in a row that say the same
MOST_READINGS: Final = 100
LONG_SECONDS: Final = 0.5  # a call after which caches are the program's own


def die_with_parent() -> None:
    """Also while the process is stopped, as rivals are between their turns."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def resident_bytes(entry: str) -> int:
    """``entry``: VmRSS, or VmHWM, the most since :func:`reset_peak`."""
    with open("/proc/self/status") as file:
        for line in file:
            if line.startswith(entry + ":"):
                return int(line.split()[1]) * 1024
    return 0


def reset_peak() -> None:
    """From here on VmHWM is the most that the process holds; what is freed is given back first."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except (OSError, AttributeError):
        pass


def settled_bytes() -> int:
    """What the process holds when it gives nothing back any more. XLA's threads free a program's arrays some time after
    its results are there: 415 MB of a training step of SmolLM2 within a second.
    """
    reset_peak()
    least, same = resident_bytes("VmRSS"), 0
    for _ in range(MOST_READINGS):
        if same == STEADY:
            break
        time.sleep(READING_SECONDS)
        reset_peak()
        now = resident_bytes("VmRSS")
        same = same + 1 if now >= least else 0
        least = min(least, now)
    return least


def widened(value: Any) -> Any:
    """Floats in double precision, for references."""
    array = np.asarray(value)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.kind == "c" else value


class Worker:
    def __init__(self, framework: str, threads: int, more: tuple[str, ...]) -> None:
        self.framework: Framework = FRAMEWORKS[framework](threads)
        self.programs = programs(more)
        self.call: Callable[[], Any] | None = None
        self.call_seconds = 0.0

    def describe(self) -> dict[str, Any]:
        return {"version": self.framework.version()}

    def reference(
        self, program: str, results: list[str], wide: bool, rounding: float
    ) -> dict[str, Any]:
        """Writes the results, and those of inputs that are off by ``rounding``. ``wide``: computed in double
        precision.
        """
        self.call = None
        self.framework.forget()
        entry = self.programs[program]
        inputs = entry.make_inputs()
        if wide:
            entry = dataclasses.replace(entry, x64=True)
            inputs = tuple(widened(value) for value in inputs)
        random = np.random.default_rng(1)
        moved = tuple(off(value, rounding, random) for value in inputs)
        found = self.framework.evaluate(entry, [inputs, moved])
        for path, arrays in zip(results, found, strict=True):
            np.savez(path, *[saved(array) for array in arrays])
        return {}

    def prepare(self, program: str, results: str) -> dict[str, Any]:
        self.call = None
        self.framework.forget()
        entry = self.programs[program]
        placed = self.framework.place(entry, entry.make_inputs())
        compile_seconds, run = self.framework.prepare(entry, placed)
        value = run(*placed)
        np.savez(results, *[saved(array) for array in self.framework.program_results(entry, value)])
        del value
        start = time.perf_counter()
        run(*placed)
        again = time.perf_counter() - start
        self.call, self.call_seconds = lambda: run(*placed), again
        return {"compile_seconds": compile_seconds, "call_seconds": again}

    def memory(self, program: str) -> dict[str, Any]:
        self.call = None
        self.framework.forget()
        entry = self.programs[program]
        run = self.ran_once(entry)
        before = settled_bytes()
        placed = self.framework.place(entry, entry.make_inputs())
        reset_peak()  # what making the inputs took is not the program's
        run(*placed)
        return {"peak_bytes": max(0, resident_bytes("VmHWM") - before)}

    def ran_once(self, program: Program) -> Callable[..., Any]:
        """What runs the program, after a run: code, threads, libraries and what the compiler keeps are there."""
        placed = self.framework.place(program, program.make_inputs())
        _, run = self.framework.prepare(program, placed)
        run(*placed)
        return run

    def turn(self, seconds: float, clock: str) -> dict[str, Any]:
        assert self.call is not None, "no program was prepared"
        call = self.call
        if self.call_seconds < LONG_SECONDS:
            call()  # what other processes evicted from the caches is not counted
        times = []
        used = time.process_time()
        deadline = time.perf_counter() + seconds
        while True:
            start = time.perf_counter()
            call()
            end = time.perf_counter()
            times.append(end - start)
            if end >= deadline:
                break
        if clock == "cpu":
            # Linux counts what other threads use when they stop, which may be after the call: only the mean is right.
            times = [(time.process_time() - used) / len(times)]
        return {"seconds": times}

    def limits(self) -> dict[str, Any]:
        return {"limits": limits.measure(self.framework.threads)}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        name = request.pop("do")
        try:
            return {"error": "", **getattr(self, name)(**request)}
        except Exception as error:
            import traceback

            traceback.print_exc()
            text = str(error).strip().splitlines()
            return {"error": f"{type(error).__name__}: {text[0][:300] if text else ''}"}


def off(value: Any, rounding: float, random: np.random.Generator) -> Any:
    """Every float moves by so much, relatively, up or down."""
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return value
    signs = 2.0 * random.integers(0, 2, array.shape, dtype=np.int8) - 1.0
    return (array * (1.0 + rounding * signs)).astype(array.dtype)


def saved(array: np.ndarray) -> np.ndarray:
    """In a type that every NumPy reads."""
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def main() -> None:
    framework, threads, *more = sys.argv[1:]
    die_with_parent()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        worker = Worker(framework, int(threads), tuple(more))
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"}), file=answers, flush=True)
        return
    print(json.dumps({"error": ""}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(worker.answer(json.loads(line))), file=answers, flush=True)
    os._exit(0)  # frameworks' threads are not waited for


if __name__ == "__main__":
    main()
