"""Artifacts that are compiled on one machine and run on another.

``python -m tests.arm64.artifacts write FOLDER CPU`` compiles programs for a CPU and keeps them with arguments and the
results of JAX's own CPU backend. ``run FOLDER`` runs them, without JAX and without the compiler, and compares;
``refuse FOLDER`` sees that this CPU refuses each with an error that says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
# Sums of 200 terms of size 1 and functions with errors of a few ulps: a bound on their relative error in f32.
TOLERANCE = 200 * np.finfo(np.float32).eps


def programs() -> Iterator[tuple[str, Callable[..., Any], list[Array]]]:
    """Name, function and arguments: each a kind of code that the compiler generates."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    rng = np.random.default_rng(0)
    x = rng.standard_normal((70, 200)).astype(np.float32)
    y = rng.standard_normal((200, 130)).astype(np.float32)
    small = rng.integers(-128, 128, (70, 200)).astype(np.int8)
    image = rng.standard_normal((2, 9, 9, 8)).astype(np.float32)
    kernel = rng.standard_normal((3, 3, 8, 5)).astype(np.float32)
    yield "elementwise", lambda x: jnp.tanh(x) + jnp.exp(-jnp.abs(x)) * jnp.sin(3 * x), [x]
    yield "softmax", lambda x: jax.nn.softmax(x, axis=-1), [x]
    yield "product", lambda x, y: jax.nn.relu(x @ y), [x, y]
    yield "half", lambda x: (x.astype(jnp.float16) * 2).astype(jnp.float32).sum(0), [np.round(x)]
    yield "integers", lambda s: lax.dot(s, s.T, preferred_element_type=jnp.int32), [small]
    yield "transpose", lambda x: jnp.fmod(x.T, 0.5), [x]
    yield "sort", lambda x: jnp.sort(x, axis=1), [x]
    yield "scatter", lambda x: jnp.zeros((10, 200)).at[jnp.arange(70) % 10].add(x), [x]
    yield (
        "loop",
        lambda x: lax.while_loop(
            lambda s: s[1].sum() < 1e3, lambda s: (s[0] + 1, s[1] * 2), (0, abs(x))
        ),
        [x],
    )
    yield (
        "convolution",
        lambda i, k: lax.conv_general_dilated(
            i, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        [image, kernel],
    )
    yield (
        "random",
        lambda key: jax.random.uniform(jax.random.wrap_key_data(key), (300,)),
        [np.array([1, 2], np.uint32)],
    )
    # Each layer's weights are read where they lie in the stack: views.
    weights = (rng.standard_normal((5, 128, 128)) / 128**0.5).astype(np.float32)
    yield (
        "layers",
        lambda x, ws: lax.scan(lambda h, w: (jnp.tanh(h @ w), h.sum()), x, ws),
        [x[:3, :128], weights],
    )
    yield (
        "masks",
        lambda x: (
            jnp.where((x[:, ::-1] < x) ^ (x > 0.5) & ~jnp.isnan(x), x, -x),
            (x[:, 1:] < x[:, :-1]).sum(1),
        ),
        [x],
    )
    yield "short rows", lambda x: (x.reshape(-1, 7).sum(1), x.reshape(-1, 5).max(1)), [x]
    table = rng.standard_normal(16).astype(np.float32)
    yield "table", lambda s: jnp.asarray(table)[(s & 15).astype(jnp.int32)], [small]


def together(
    several: list[tuple[str, Callable[..., Any], list[Array]]],
) -> tuple[str, Callable[..., Any], list[Array]]:
    """One program that does what ``several`` do."""

    def function(*arguments: Any) -> list[Any]:
        rest = iter(arguments)
        return [f(*(next(rest) for _ in own)) for _, f, own in several]

    return "together", function, [a for _, _, own in several for a in own]


def write(folder: Path, cpu: str) -> None:
    """Compiles for ``cpu``, in parts as large programs are."""
    import jax
    from tripont.core.compiler.compile import compile_program
    from tripont.core.compiler.formats.artifact import View, deserialize, walk
    from tripont.core.compiler.targets.host import parts

    parts.PART = parts.SHARE = 1 << 12
    folder.mkdir(parents=True)
    with jax.default_device(jax.devices("cpu")[0]):
        several = list(programs())
        for name, function, arguments in [*several, together(several)]:
            jitted = jax.jit(function)
            text = jitted.trace(*arguments).lower(lowering_platforms=("cpu",)).as_text()
            artifact = compile_program(text.encode(), "mlir", b"", {"cpu": cpu})
            if name == "layers" and not any(
                isinstance(t, View) for t in walk(deserialize(artifact).thunks)
            ):
                raise SystemExit("layers: the program has no views")
            (folder / f"{name}.tripont").write_bytes(artifact)
            results = [np.asarray(r) for r in jax.tree.leaves(jitted(*arguments))]
            np.savez(
                folder / f"{name}.npz",
                **{f"argument{i}": a for i, a in enumerate(arguments)},
                **{f"result{i}": r for i, r in enumerate(results)},
            )


def arrays(file: Any, kind: str) -> list[Array]:
    return [file[f"{kind}{i}"] for i in range(sum(name.startswith(kind) for name in file.files))]


def differences(folder: Path) -> Iterator[str]:
    from tripont.core import _tripont

    client = _tripont.Client({"prestart_worker": False})
    for path in sorted(folder.glob("*.tripont")):
        executable = _tripont.Executable.load(path.read_bytes())
        with np.load(path.with_suffix(".npz")) as file:
            arguments, wanted = arrays(file, "argument"), arrays(file, "result")
        got = [np.asarray(r) for r in executable.run(client.devices[0], arguments)]
        for g, want in zip(got, wanted, strict=True):
            same = (
                np.abs(g - want).max() <= TOLERANCE * np.abs(want).max()
                if want.dtype.kind == "f"
                else np.array_equal(g, want)
            )
            if g.dtype != want.dtype or not same:
                yield f"{path.stem}: the results differ from those of JAX's CPU backend on x86-64"


def not_refused(folder: Path) -> Iterator[str]:
    from tripont.core import _tripont

    for path in sorted(folder.glob("*.tripont")):
        try:
            _tripont.Executable.load(path.read_bytes())
        except _tripont.StatusError as error:
            if not any(
                part in str(error) for part in ("lacks: dotprod", "this machine is aarch64")
            ):
                yield f"{path.stem}: refused for another reason: {error}"
        else:
            yield f"{path.stem}: this CPU does not refuse it"


def main(command: str, folder: Path, cpu: str = "") -> int:
    if command == "write":
        write(folder, cpu)
        return 0
    found = list(differences(folder) if command == "run" else not_refused(folder))
    for line in found:
        print(line)
    print(f"{len(list(folder.glob('*.tripont')))} artifacts, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:]))
