"""Compile time and run time of one set of programs by several versions of this compiler.

    python -m benchmarks.revisions make programs.pickle                  the set, from JAX
    python -P benchmarks/revisions.py measure programs.pickle 1.json     by the tripont that Python finds
    python -P benchmarks/revisions.py compare old/*.json -- new/*.json   minima of the measurements of each version

A version is measured by its own environment, or by PYTHONPATH: with ``--compile-only`` a folder with its Python files
(``tripont``, ``tripont/core``, ``tripont/frontends``) is enough. Measure the versions in turns. Times are of the CPU,
all threads together: of a first compilation in a process that has imported all modules, and of a call.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import pickle
import pkgutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Programs = dict[str, tuple[bytes, list[Any]]]  # name -> StableHLO, arguments

_WARM = b"""func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.cosine %x : tensor<3xf32>
  return %y : tensor<3xf32>
}"""


def make() -> Programs:
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    from benchmarks.training import GPT, make_loss, random_tokens

    random = np.random.default_rng(0)
    found: Programs = {}

    def f(*dims: int) -> Any:
        return random.standard_normal(dims).astype(np.float32)

    def add(name: str, function: Any, *arguments: Any) -> None:
        arguments = jax.tree.map(np.asarray, arguments)
        lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cpu",))
        text = str(lowered.compiler_ir("stablehlo")).encode()
        found[name] = text, jax.tree.leaves(arguments)

    def mlp(weights: Any, x: Any, y: Any) -> Any:
        for w, b in weights:
            x = jnp.tanh(x @ w + b)
        return ((x - y) ** 2).mean()

    def gpt(layers: int, width: int, batch: int, length: int) -> None:
        model = GPT(layers, width)
        tokens, labels = random_tokens(batch, length)
        parameters = jax.jit(model.init)(jax.random.key(0), tokens)
        gradient = jax.grad(make_loss(model))
        add(f"gradient of a GPT of {layers} layers", gradient, parameters, tokens, labels)

    def images(x: Any, a: Any, b: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        for kernel, stride in ((a, 1), (b, 2)):
            window = (stride, stride)
            convolved = lax.conv_general_dilated(
                x, kernel, window, "SAME", dimension_numbers=numbers
            )
            x = jax.nn.relu(convolved)
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

    def recurrent(w: Any, h: Any, x: Any) -> Any:
        return lax.scan(lambda h, x: (jnp.tanh(h @ w + x),) * 2, h, x)[1]

    def unknown_length(x: Any) -> Any:
        step = lambda s: (s[0] + 1, jnp.sin(s[1]) * s[1])
        return lax.while_loop(lambda s: s[0] < 1000, step, (0, x))[1]

    def solve(x: Any, b: Any) -> Any:
        return jax.scipy.linalg.solve(x @ x.T + 200 * jnp.eye(200), b, assume_a="pos")

    def normal(key: Any) -> Any:
        return jax.random.normal(jax.random.wrap_key_data(key, impl="threefry2x32"), (256, 256))

    add("one op", lambda x: x + 1.5, f(8))
    weights = [(f(256, 256) / 16, f(256)) for _ in range(3)]
    add("gradient of an MLP", jax.grad(mlp), weights, f(64, 256), f(64, 256))
    gpt(6, 128, 4, 64)
    gpt(24, 64, 2, 32)
    add("loop of 100 steps", recurrent, f(128, 128) / 12, f(16, 128), f(100, 16, 128))
    add("loop of unknown length", unknown_length, f(256))
    add("sort of 100,000", jnp.sort, f(100_000))
    add("sort by keys", lambda k, v: lax.sort((k, v), num_keys=1), f(64, 1000), f(64, 1000))
    add("convolutions and pooling", images, f(8, 32, 32, 16), f(3, 3, 16, 32), f(3, 3, 32, 32))
    add("softmax of rows", lambda x: jax.nn.softmax(x, -1), f(512, 1000))
    add("product of matrices of 512", lambda x, y: x @ y, f(512, 512), f(512, 512))
    add("Cholesky and solves of 200", solve, f(200, 200), f(200, 10))
    add("random normal numbers", normal, np.array([1, 2], np.uint32))
    rows = (f(64, 1024) + 1j * f(64, 1024)).astype(np.complex64)
    add("FFT of 64 rows of 1,024", jnp.fft.fft, rows)
    places = random.integers(0, 1000, 5000).astype(np.int32)
    add("gather and scatter", lambda x, i, u: x.at[i].add(u)[i], f(1000, 64), places, f(5000, 64))
    return found


def measure(programs: Programs, compile_only: bool) -> dict[str, list[float]]:
    """For each program the CPU seconds of compiling it, and of a call."""
    import tripont.core.compiler as package
    from tripont.core.compiler.compile import compile_program

    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith(("__main__", ".worker")):
            importlib.import_module(module.name)
    compile_program(_WARM, "mlir", b"", {"target": "host"})

    def times(text: bytes, arguments: list[Any]) -> list[float]:
        start = time.process_time()
        artifact = compile_program(text, "mlir", b"", {"target": "host"})
        compiling = time.process_time() - start
        return [compiling] if compile_only else [compiling, _call_seconds(artifact, arguments)]

    found = {}
    for name, program in programs.items():
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:  # what one compilation keeps, the next would find
            os.write(writing, json.dumps(times(*program)).encode())
            os._exit(0)
        os.close(writing)
        with open(reading, "rb") as answer:
            found[name] = json.loads(answer.read())
        os.waitpid(child, 0)
    return found


def _call_seconds(artifact: bytes, arguments: list[Any]) -> float:
    from tripont.core import _tripont

    client = _tripont.Client()
    load = client.load if hasattr(client, "load") else _tripont.Executable.load  # older versions
    executable, device = load(artifact), client.devices[0]
    buffers = [_tripont.Buffer.from_array(a, device) for a in arguments]
    start, calls = 0.0, -2
    while calls < 5 or (calls < 2000 and time.process_time() - start < 0.3):
        if calls == 0:
            start = time.process_time()
        for result in executable.execute(device, buffers):
            result.wait()
        calls += 1
    return (time.process_time() - start) / calls


def compare(before: Sequence[str], after: Sequence[str]) -> str:
    """A table of the minima in milliseconds, and the geometric means of the ratios."""
    sides = []
    for paths in (before, after):
        runs = [json.loads(Path(path).read_text()) for path in paths]
        sides.append(
            {n: [min(x) for x in zip(*(r[n] for r in runs), strict=True)] for n in runs[0]}
        )
    lines, ratios = [], []
    for name, old in sides[0].items():
        new = sides[1][name]
        lines.append(
            " | ".join(
                [name, *(f"{1e3 * x:.3g}" for pair in zip(old, new, strict=True) for x in pair)]
            )
        )
        ratios.append([b / a for a, b in zip(old, new, strict=True)])
    means = [
        math.exp(sum(map(math.log, column)) / len(column)) for column in zip(*ratios, strict=True)
    ]
    return "\n".join(
        [
            *(f"| {line} |" for line in lines),
            "after / before: " + ", ".join(f"{m:.3f}" for m in means),
        ]
    )


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["make", "measure", "compare"])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--compile-only", action="store_true")
    after = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:after])
    if options.command == "make":
        Path(options.files[0]).write_bytes(pickle.dumps(make()))
    elif options.command == "measure":
        programs, out = (Path(f) for f in options.files)
        found = measure(pickle.loads(programs.read_bytes()), options.compile_only)
        out.write_text(json.dumps(found))
    else:
        print(compare(options.files, arguments[after + 1 :]))


if __name__ == "__main__":
    main(sys.argv[1:])
