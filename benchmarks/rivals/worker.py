"""A rival's process: one request a line on standard input, one answer a line on standard output, both JSON.

| request | answer |
|---|---|
| ``describe`` | ``version`` |
| ``prepare``: ``program``, ``results`` (a path) | ``compile_seconds`` or null, ``call_seconds``, ``peak_bytes`` |
| ``turn``: ``seconds`` | ``seconds``: those of every call of the program that was prepared last |
| ``limits`` | ``limits``: what the machine can do (rivals/limits.py) |

A request is ``{"do": name, ...}``. ``prepare`` writes the results to the path, as .npz.
Every answer has ``error``: "" or what happened. What frameworks print goes to standard error. The process
ends with its input, and with the process that started it.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import signal
import sys
import time
from typing import Any, Final

import numpy as np

from . import limits
from .frameworks import FRAMEWORKS, Call, Framework
from .program import programs

PR_SET_PDEATHSIG: Final = 1


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
    try:
        ctypes.CDLL(None).malloc_trim(0)
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except (OSError, AttributeError):
        pass


def wide(value: Any) -> Any:
    """Floats in double precision, for references."""
    array = np.asarray(value)
    if array.dtype.kind == "f" or array.dtype.name == "bfloat16":
        return array.astype(np.float64)
    return array.astype(np.complex128) if array.dtype.kind == "c" else value


class Worker:
    def __init__(self, framework: str, threads: int, more: tuple[str, ...]) -> None:
        self.framework: Framework = FRAMEWORKS[framework](threads)
        self.programs = programs(more)
        self.call: Call | None = None

    def describe(self) -> dict[str, Any]:
        return {"version": self.framework.version()}

    def prepare(
        self, program: str, results: str, wide_inputs: bool = False, perturb: float = 0.0
    ) -> dict[str, Any]:
        """``wide_inputs``: in double precision. ``perturb``: every float input moves by so much, relatively, up or
        down.
        """
        self.call = None
        self.framework.forget()
        entry = self.programs[program]
        reset_peak()
        before = resident_bytes("VmRSS")
        inputs = entry.make_inputs()
        if wide_inputs:
            entry = dataclasses.replace(entry, x64=True)
            inputs = tuple(wide(value) for value in inputs)
        if perturb:
            random = np.random.default_rng(1)
            inputs = tuple(moved(value, perturb, random) for value in inputs)
        compile_seconds, call = self.framework.prepare(entry, inputs)
        value = call()
        np.savez(results, *[saved(array) for array in self.framework.results(value)])
        del value
        reset_peak()  # what compiling took is not the program's
        start = time.perf_counter()
        call()
        again = time.perf_counter() - start
        self.call = call
        return {
            "compile_seconds": compile_seconds,
            "call_seconds": again,
            "peak_bytes": max(0, resident_bytes("VmHWM") - before),
        }

    def turn(self, seconds: float) -> dict[str, Any]:
        assert self.call is not None, "no program was prepared"
        call = self.call
        call()  # what other processes evicted from the caches is not counted
        times = []
        deadline = time.perf_counter() + seconds
        while True:
            start = time.perf_counter()
            call()
            end = time.perf_counter()
            times.append(end - start)
            if end >= deadline:
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


def moved(value: Any, size: float, random: np.random.Generator) -> Any:
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return value
    return array * (1.0 + size * random.choice((-1.0, 1.0), array.shape)).astype(array.real.dtype)


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
