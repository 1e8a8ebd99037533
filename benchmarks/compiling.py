"""Compile time (worker warm, no cache), start-up with the disk cache, and memory that must not grow."""

from __future__ import annotations

import gc
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import psutil

from benchmarks.harness import Result, measurement
from benchmarks.training import GPT, make_loss, random_tokens

_fresh = itertools.count(1)  # a new constant in a program makes it one that no cache knows


def compile_seconds(function: Callable[..., Any], arguments: tuple[Any, ...], device: Any) -> float:
    """Seconds from the lowered program to the executable."""
    with jax.default_device(device):
        lowered = jax.jit(function).lower(*jax.device_put(arguments, device))
        start = time.perf_counter()
        lowered.compile()
        return time.perf_counter() - start


def compile_times(
    make: Callable[[int], Callable[..., Any]], arguments: tuple[Any, ...], rounds: int
) -> list[list[float]]:
    """For both devices in turns; every compile is of a program that was not seen before."""
    devices = [jax.devices("xpu")[0], jax.devices("cpu")[0]]
    for device in devices:
        compile_seconds(make(next(_fresh)), arguments, device)
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for index, device in enumerate(devices):
            times[index].append(compile_seconds(make(next(_fresh)), arguments, device))
    return times


def compile_result(
    name: str, description: str, times: list[list[float]], target: str, limit: float
) -> Result:
    median = statistics.median(times[0])
    reference = statistics.median(times[1])
    return Result(
        name,
        description,
        median,
        min(times[0]),
        reference,
        min(times[1]),
        target,
        passed=median <= limit,
    )


@measurement("compile a program of one op")
def compile_one_op() -> Result:
    times = compile_times(lambda i: lambda x: x + float(i), (np.zeros(8, np.float32),), 15)
    return compile_result("compile_one_op", "compile a program of one op", times, "<= 35 ms", 0.035)


@measurement("compile the gradient of a 24-layer transformer")
def compile_transformer() -> Result:
    model = GPT(24, 64)
    tokens, labels = random_tokens(2, 32)
    with jax.default_device(jax.devices("cpu")[0]):
        parameters = jax.tree.map(np.asarray, jax.jit(model.init)(jax.random.key(0), tokens))
    loss_of = make_loss(model)

    def make(i: int) -> Callable[..., Any]:
        return jax.grad(lambda *arguments: loss_of(*arguments) * (1.0 + i))

    times = compile_times(make, (parameters, tokens, labels), 3)
    limit = 1.5 * statistics.median(times[1])
    return compile_result(
        "compile_transformer",
        "compile the gradient of a 24-layer transformer",
        times,
        "<= 1.5x of XLA's",
        limit,
    )


START_UP = """
import json, sys, time
sys.path.insert(0, {folder!r})
import jax, numpy as np, train
x, y, *_ = train.load_data()
start = time.perf_counter()
device = jax.devices()[0]
started = time.perf_counter()
parameters, state = train.init(jax.random.key(0), x[:train.BATCH])
parameters, state, loss = train.train_step(parameters, state, x[:train.BATCH], y[:train.BATCH])
loss = float(loss)
print(json.dumps(dict(platform=device.platform, total=time.perf_counter() - start, device=started - start)))
"""


def last_line(script: str, environment: dict[str, str], *arguments: str) -> str:
    """What a script says at last, in a process of its own."""
    output = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        env=os.environ | environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return output.stdout.splitlines()[-1]


def start_up_seconds(environment: dict[str, str]) -> dict[str, Any]:
    folder = str(Path(__file__).parent.parent / "examples" / "jax_digits")
    answer: dict[str, Any] = json.loads(last_line(START_UP.format(folder=folder), environment))
    return answer


@measurement("from imports to the demo's first step, with the disk cache")
def start_up() -> Result:
    with tempfile.TemporaryDirectory() as folder:
        cached = {"TRIPONT_CACHE": "1", "TRIPONT_CACHE_DIR": folder, "JAX_PLATFORMS": ""}
        first = start_up_seconds(cached)
        times: list[list[float]] = [[], []]
        for _ in range(3):
            answer = start_up_seconds(cached)
            assert answer["platform"] == "xpu", answer
            times[0].append(answer["total"])
            times[1].append(start_up_seconds({"JAX_PLATFORMS": "cpu"})["total"])
    median = statistics.median(times[0])
    return Result(
        "start_up",
        "from imports to the demo's first step, with the disk cache",
        median,
        min(times[0]),
        statistics.median(times[1]),
        min(times[1]),
        "<= 0.5 s",
        passed=median <= 0.5,
        notes={"without a cache": first["total"]},
    )


CHANGED = """
import sys, time
import jax, numpy as np
from benchmarks.training import GPT, make_loss, random_tokens
model = GPT(6, 64)
tokens, labels = random_tokens(2, 32)
shapes = jax.eval_shape(model.init, jax.random.key(0), tokens)
loss_of = make_loss(model)
gradient = jax.grad(lambda *arguments: loss_of(*arguments) * float(sys.argv[1]))
number = float(sys.argv[1])
jax.jit(lambda x: x + number).lower(np.zeros(3)).compile()  # the compiler has started
lowered = jax.jit(gradient).lower(shapes, tokens, labels)
start = time.perf_counter()
lowered.compile()
print(time.perf_counter() - start)
"""


def changed_seconds(environment: dict[str, str]) -> float:
    """Seconds to compile a program that no process has compiled, in a new process."""
    return float(last_line(CHANGED, environment, str(next(_fresh))))


@measurement("compile a program that was changed since the last process")
def compile_changed() -> Result:
    times: list[list[float]] = [[], []]
    alone = []
    with tempfile.TemporaryDirectory() as folder:
        ours = {"TRIPONT_CACHE": "1", "TRIPONT_CACHE_DIR": folder, "JAX_PLATFORMS": "xpu"}
        changed_seconds(ours)
        for _ in range(5):
            times[0].append(changed_seconds(ours))
            alone.append(changed_seconds(ours | {"TRIPONT_CACHE": "0"}))
            times[1].append(changed_seconds({"JAX_PLATFORMS": "cpu"}))
    result = compile_result(
        "compile_changed",
        "compile a program that was changed since the last process",
        times,
        "<= 1/2 of XLA's",
        statistics.median(times[1]) / 2,
    )
    return replace(
        result, notes={"without a cache": statistics.median(alone), "its minimum": min(alone)}
    )


def resident_bytes() -> int:
    """The CPU seconds of this process and of the compile workers that it started."""
    process = psutil.Process()
    return sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])


def growth(
    name: str, description: str, body: Callable[[int], None], warm_up: int, count: int
) -> Result:
    """Resident memory after ``count`` rounds beyond what ``warm_up`` rounds left. Noise: 1 % of it, and 8 MB."""
    for i in range(warm_up):
        body(i)
    gc.collect()
    before = resident_bytes()
    for i in range(count):
        body(warm_up + i)
    gc.collect()
    grown = resident_bytes() - before
    limit = 8 * 2**20 + before // 100
    return Result(
        name,
        description,
        grown / 2**20,
        grown / 2**20,
        target=f"<= {limit / 2**20:.0f} MB",
        passed=grown <= limit,
        unit="MB",
        notes={"resident before, MB": before / 2**20},
    )


@measurement("resident memory grown by 100,000 executions of a small program")
def memory_of_executions() -> Result:
    function = jax.jit(lambda x: x * 2 + 1)
    x = jax.device_put(np.zeros(1000, np.float32), jax.devices("xpu")[0])

    def body(i: int) -> None:
        function(x).block_until_ready()

    return growth("memory_of_executions", "growth by 100,000 executions", body, 5_000, 100_000)


@measurement("resident memory grown by 1,000 compiles")
def memory_of_compiles() -> Result:
    device = jax.devices("xpu")[0]
    x = jax.device_put(np.zeros(8, np.float32), device)

    def body(i: int) -> None:
        constant = 1.0 + i
        jax.jit(lambda a: jnp.sin(a) * constant).lower(x).compile()
        if i % 50 == 0:
            jax.clear_caches()

    return growth("memory_of_compiles", "growth by 1,000 compiles", body, 200, 1_000)
