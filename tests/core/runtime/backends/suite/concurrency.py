"""Many threads at once: the same program, the same device, several devices."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .context import Context, elementwise

THREADS = 6
ROUNDS = 15


def check_executions_of_one_program(context: Context) -> None:
    program = context.program(elementwise("negate", 50_000))

    def work(thread: int) -> None:
        device = context.client.devices[thread % 2]
        for n in range(ROUNDS):
            x = np.full(50_000, 100 * thread + n, np.float32)
            (result,) = program.execute(device, [context.put(x, device)], [0] if n % 2 else [])
            np.testing.assert_array_equal(result.numpy(), -x)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def check_transfers(context: Context) -> None:
    def work(thread: int) -> None:
        generator = np.random.default_rng(thread)
        for _ in range(ROUNDS):
            x = generator.integers(0, 255, generator.integers(0, 300_000), np.uint8)
            buffer = context.put(x, context.client.devices[thread % 2])
            copy = buffer.copy_to(context.client.devices[(thread + 1) % 2])
            buffer.delete()
            np.testing.assert_array_equal(copy.numpy(), x)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def check_programs_that_are_loaded_meanwhile(context: Context) -> None:
    artifacts = [context.artifact(elementwise("negate", 100 + n)) for n in range(3)]
    assert len(set(artifacts)) == 3

    def work(thread: int) -> None:
        for n in range(ROUNDS // 3):
            size = 100 + (thread + n) % 3
            program = context.program(elementwise("negate", size))
            x = np.arange(size, dtype=np.float32)
            np.testing.assert_array_equal(program.run(context.device, [x])[0], -x)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
