"""Everything at once for a while: ``python -m tests.soak --minutes 30`` (``make soak``).

One process trains and serves on ``xpu`` with JAX, as services do: threads with donation, callbacks, products, new
programs all the time, clients that come and go, and arrays between host and device. Meanwhile compile workers are
killed, files cannot be written (a full disk), memory runs out, the process forks, and signals arrive. Every result is
compared: training with itself and with JAX's CPU, serving with NumPy, exactly where numbers are whole. The run fails on
a wrong number, on an error that nothing explains, if some thread does nothing for two minutes, and if memory, threads
or open files grow after the first third of a run of three minutes or more. At the end it says what each process held
after the first third and at last (:mod:`.memory`); with ``--calm`` there are no troubles, so that compile workers live
long enough to be seen growing. Four times a minute all jobs rest, and what malloc has given then without what is in
caches is said as "malloc at rest"; ``--only serving`` runs one job, to find the one that makes it grow.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from tests.soak import memory

MEMORY: Final = 1 << 30  # bytes that arrays may take
DISK: Final = 1 << 20  # bytes of the file system that holds the cache
STALLED: Final = 120.0  # seconds in which every job comes to an end at least once
RESTS: Final = 15.0  # seconds between two rests of all jobs
# What a third of the run may add: caches fill up, and malloc's arenas with them.
GROWTH: Final = {"MB of memory": (1.25, 150.0), "threads": (1.0, 6.0), "open files": (1.0, 12.0)}


class Soak:
    """The jobs, and what came of them."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.stop = threading.Event()
        self.done: collections.Counter[str] = collections.Counter()
        self.explained: collections.Counter[str] = collections.Counter()
        self.last: dict[str, float] = {}
        self.failures: list[str] = []
        self.kills = 0
        self.signals = 0
        self.gate = threading.Condition()
        self.closed = False
        self.resting: set[str] = set()

    def fail(self, what: str) -> None:
        self.failures.append(what)
        self.stop.set()

    def wait_at_gate(self, name: str) -> None:
        with self.gate:
            if self.closed:
                self.resting.add(name)
                self.gate.notify_all()
                self.gate.wait_for(lambda: not self.closed)
                self.resting.remove(name)
                self.last[name] = time.monotonic()

    @contextlib.contextmanager
    def rest(self, names: Sequence[str]) -> Iterator[None]:
        """The jobs of these names are between two steps."""
        with self.gate:
            self.closed = True
            if not self.gate.wait_for(
                lambda: self.stop.is_set() or self.resting.issuperset(names), STALLED
            ):
                faulthandler.dump_traceback()
                moving = sorted({*names} - self.resting)
                self.fail(f"nothing has come to an end for {STALLED:.0f} s: {', '.join(moving)}")
            yield
            self.closed = False
            self.gate.notify_all()

    def job(self, step: Callable[[random.Random], None], rests: bool = True) -> threading.Thread:
        """A thread that does ``step`` again and again."""
        name = step.__name__

        def run() -> None:
            numbers = random.Random(f"{self.seed} {name}")
            while not self.stop.is_set():
                if rests:
                    self.wait_at_gate(name)
                kills = self.kills
                try:
                    step(numbers)
                    self.done[name] += 1
                except Exception as error:
                    # A worker that is killed takes the compile with it; a full device refuses.
                    if self.kills > kills and "compile worker" in str(error):
                        self.explained["compiles whose worker was killed"] += 1
                    elif "RESOURCE_EXHAUSTED" in str(error):
                        self.explained["requests without room"] += 1
                    else:
                        self.fail(f"{name}: {type(error).__name__}: {error}")
                self.last[name] = time.monotonic()

        self.last[name] = time.monotonic()
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread


def equal(name: str, got: Any, expected: Any, rtol: float = 0.0) -> None:
    import numpy as np

    np.testing.assert_allclose(np.asarray(got), np.asarray(expected), rtol=rtol, err_msg=name)


def jobs(soak: Soak) -> list[Callable[[random.Random], None]]:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from tripont.core import _tripont
    from tripont.core.compiler.compile import compile_module
    from tripont.core.compiler.formats import artifact
    from tripont.core.compiler.importer.program import read_program

    xpu = jax.devices("xpu")[0]

    def loss(w: Any, x: Any, y: Any) -> Any:
        return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2)

    def update(w: Any, x: Any, y: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(w, x, y)
        return jax.tree.map(lambda a, g: a - 0.1 * g, w, gradient), value

    step = jax.jit(update, donate_argnums=0)
    data = np.random.default_rng(1)
    x, y = data.normal(size=(64, 32)).astype("f"), data.normal(size=(64, 4)).astype("f")
    start = [data.normal(size=s).astype("f") / 8 for s in ((32, 48), (48, 4))]

    def trained(device: Any, steps: int = 20) -> list[float]:
        values = []
        with jax.default_device(device):
            w = [jax.device_put(a, device) for a in start]
            for _ in range(steps):
                w, value = step(w, x, y)
                values.append(float(value))
        return values

    expected = trained(xpu)
    # Twenty steps of f32 sums of 64 terms, in another order.
    equal("training beside the CPU", expected, trained(jax.devices("cpu")[0]), rtol=2e-4)

    def training(numbers: random.Random) -> None:
        if trained(xpu) != expected:
            raise AssertionError("training again gave other numbers")

    serve = jax.jit(lambda a, b: (a @ b, jnp.sort(a, axis=0), jnp.cumsum(b, axis=1)))

    def serving(numbers: random.Random) -> None:
        m, k, n = (numbers.choice((1, 7, 64, 130)) for _ in range(3))
        rng = np.random.default_rng(numbers.randrange(1 << 30))
        a = rng.integers(-50, 50, (m, k)).astype(np.int32)
        b = rng.integers(-50, 50, (k, n)).astype(np.int32)
        got = serve(jax.device_put(a, xpu), jax.device_put(b, xpu))
        for name, value, want in zip(
            ("product", "sort", "sums"), got, (a @ b, np.sort(a, 0), np.cumsum(b, 1)), strict=True
        ):
            equal(name, value, want)

    def host(a: Any) -> Any:
        return np.asarray(a) * 2 + 1

    called = jax.jit(
        lambda a: jax.pure_callback(host, jax.ShapeDtypeStruct((257,), np.float32), a + 1) - 1
    )

    def callbacks(numbers: random.Random) -> None:
        value = float(numbers.randrange(1000))
        got = called(jax.device_put(np.full(257, value, "f"), xpu))
        equal("callback", got, np.full(257, 2 * value + 2, "f"))

    def compiling(numbers: random.Random) -> None:
        factor, size = numbers.randrange(1 << 20), numbers.randrange(1, 2000)
        array = jax.device_put(np.arange(size, dtype=np.int32), xpu)
        got = jax.jit(lambda a: (a * factor) ^ (a + size))(array)
        a = np.arange(size, dtype=np.int32)
        equal("new program", got, (a * np.int32(factor)) ^ (a + size))
        if soak.done["compiling"] % 50 == 49:
            jax.clear_caches()  # what nobody needs any more goes, as in services that reload models

    def transfers(numbers: random.Random) -> None:
        size = numbers.choice((1, 1000, 300_000, 3_000_000))
        source = np.random.default_rng(numbers.randrange(1 << 30)).random(size, np.float32)
        copied = jax.device_put(source, xpu) + 0
        kept = source.copy()
        copied.block_until_ready()
        source[:] = -1  # a loader that uses its buffer again
        equal("transfer", copied, kept)

    doubled = _tripont.Executable.load(
        artifact.serialize(
            compile_module(
                read_program(
                    b"func.func @main(%x: tensor<64xf32>) -> tensor<64xf32> {\n"
                    b"  %y = stablehlo.add %x, %x : tensor<64xf32>\n  return %y : tensor<64xf32>\n}",
                    "mlir",
                ),
                {"target": "host"},
            )
        )
    )

    def clients(numbers: random.Random) -> None:
        """Another client of the runtime, with devices and threads of its own, which ends again."""
        client = _tripont.Client(
            {"device": "host", "num_devices": numbers.randrange(1, 4), "prestart_worker": False}
        )
        value = float(numbers.randrange(1000))
        for device in client.devices:
            (got,) = doubled.run(device, [np.full(64, value, "f")])
            equal("another client", got, np.full(64, 2 * value, "f"))

    def exhausting(numbers: random.Random) -> None:
        held = []
        with contextlib.suppress(Exception):
            for _ in range(64):
                held.append(jax.device_put(np.zeros(16 << 20, np.float32), xpu))
                held[-1].block_until_ready()
                if numbers.random() < 0.2:
                    break
        held.clear()
        time.sleep(1)

    return [training, serving, callbacks, compiling, transfers, clients, exhausting]


def troubles(soak: Soak) -> list[Callable[[random.Random], None]]:
    from tripont.core import _tripont

    def killing(numbers: random.Random) -> None:
        time.sleep(numbers.uniform(2, 8))
        pids = _tripont.worker_processes()
        if pids:
            soak.kills += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(numbers.choice(pids), signal.SIGKILL)

    def full_disk(numbers: random.Random) -> None:
        filler = os.path.join(os.environ["TRIPONT_CACHE_DIR"], "filler")
        with contextlib.suppress(OSError), open(filler, "wb") as file:
            while file.write(bytes(1 << 12)) and file.tell() < DISK:
                file.flush()
        time.sleep(numbers.uniform(0.5, 2))
        with contextlib.suppress(OSError):
            os.remove(filler)
        time.sleep(numbers.uniform(1, 4))

    def forking(numbers: random.Random) -> None:
        time.sleep(numbers.uniform(1, 3))
        child = os.fork()
        if child == 0:
            os._exit(7)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) != 7:
            raise AssertionError(f"a forked child ended with {status}")

    return [killing, full_disk, forking]


def use() -> dict[str, float]:
    """What the process holds now."""
    return {
        "MB of memory": memory.resident(),
        "threads": len(os.listdir("/proc/self/task")),
        "open files": len(os.listdir("/proc/self/fd")),
    }


def grown(before: dict[str, float], after: dict[str, float]) -> list[str]:
    found = []
    for what, (factor, more) in GROWTH.items():
        if after[what] > before[what] * factor + more:
            found.append(f"{what} grew from {before[what]:.0f} to {after[what]:.0f}")
    return found


def run(minutes: float, seed: int, calm: bool = False, only: Sequence[str] = ()) -> int:
    import jax
    from tripont.core import _tripont

    soak = Soak(seed)

    def count(number: int, frame: object) -> None:
        soak.signals += 1

    signal.signal(signal.SIGALRM, count)
    wanted = [step for step in jobs(soak) if not only or step.__name__ in only]
    harmful = [] if calm else troubles(soak)
    steps = [*wanted, *harmful]
    for step in wanted:
        soak.job(step)
    for step in harmful:
        soak.job(step, rests=False)
    if not calm:
        signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
    begin, end = time.monotonic(), time.monotonic() + 60 * minutes
    thirds: list[list[dict[str, float]]] = [[], [], []]
    held: dict[str, list[tuple[float, float]]] = collections.defaultdict(list)
    xpu = jax.devices("xpu")[0]
    rested, at_rest = begin, list[float]()
    while time.monotonic() < end and not soak.stop.is_set():
        time.sleep(1)
        elapsed = time.monotonic() - begin
        third = min(2, int(3 * elapsed / (60 * minutes)))
        thirds[third].append(use())
        if third:  # caches and arenas are full by then
            held["this process"].append((elapsed, thirds[third][-1]["MB of memory"]))
            held["of that from malloc"].append((elapsed, memory.malloc().used))
            held["arrays"].append((elapsed, xpu.memory_stats()["bytes_in_use"] / 1e6))
            for pid in _tripont.worker_processes():
                held[f"compile worker {pid}"].append((elapsed, memory.resident(pid)))
        if time.monotonic() - rested > RESTS:
            with soak.rest([step.__name__ for step in wanted]):
                at_rest.append(memory.at_rest(jax.clear_caches).used)
            rested = time.monotonic()
            if third:
                held["malloc at rest"].append((elapsed, at_rest[-1]))
        late = [n for n, t in soak.last.items() if time.monotonic() - t > STALLED]
        if late:
            faulthandler.dump_traceback()
            soak.fail(f"nothing has come to an end for {STALLED:.0f} s: {', '.join(late)}")
    soak.stop.set()
    signal.setitimer(signal.ITIMER_REAL, 0)
    # Half of the time the process held less: the most it held is that of the job that takes all memory.
    settled, last = (
        {w: statistics.median(u[w] for u in third) for w in third[0]} if third else {}
        for third in thirds[1:]
    )
    if settled and last and minutes >= 3:
        soak.failures += grown(settled, last)
    print(f"{(time.monotonic() - begin) / 60:.1f} minutes, seed {seed}")
    print("done:", ", ".join(f"{n} {c}" for n, c in sorted(soak.done.items())))
    print(
        f"{soak.kills} workers killed, {soak.signals} signals;",
        ", ".join(f"{c} {n}" for n, c in soak.explained.items()) or "nothing refused",
    )
    for what, amount in last.items():
        print(f"{what}: {settled.get(what, 0):.0f} in the second third, {amount:.0f} in the last")
    if at_rest:
        print("MB of malloc at rest:", " ".join(f"{used:.1f}" for used in at_rest))
    for name, samples in held.items():
        if line := memory.said(name, samples):
            print(line)
    idle = [step.__name__ for step in steps if not soak.done[step.__name__]]
    if idle and 60 * minutes >= STALLED:
        soak.failures.append(f"never came to an end: {', '.join(idle)}")
    for failure in soak.failures:
        print("FAILED:", failure)
    sys.stdout.flush()
    os._exit(1 if soak.failures else 0)  # the jobs may be in the middle of anything


def main() -> int:
    parser = argparse.ArgumentParser(prog="soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--calm", action="store_true", help="jobs without troubles")
    parser.add_argument("--only", action="append", default=[], help="the name of a job")
    given = parser.parse_args()
    if os.environ.get("TRIPONT_CACHE_DIR", "").startswith(tempfile.gettempdir() + "/tripont-soak-"):
        return run(given.minutes, given.seed, given.calm, given.only)
    with tempfile.TemporaryDirectory(prefix="tripont-soak-") as folder:
        environment = os.environ | {
            "TRIPONT_CACHE_DIR": folder,
            "TRIPONT_MEMORY_LIMIT": str(MEMORY),
            "JAX_PLATFORMS": "xpu,cpu",
            **memory.TUNABLES,
        }
        again = [sys.executable, "-m", "tests.soak", *sys.argv[1:]]
        # A file system of this process alone, that is soon full.
        root = [] if os.geteuid() == 0 else ["--map-root-user"]
        small = ["unshare", "--mount", *root, "sh", "-c"]
        small += [f'mount -t tmpfs -o mode=0700,size={DISK} tmpfs "$0" && exec "$@"', folder]
        if shutil.which("unshare") and not subprocess.run([*small, "true"], check=False).returncode:
            again = [*small, *again]
        else:
            print("the disk will not be full: this user may not mount a file system", flush=True)
        return subprocess.run(again, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
