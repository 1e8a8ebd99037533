"""An op of another package: the worked example of docs/architecture.md, installed, compiled by the worker, and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]

PROGRAM = """
import numpy as np
import jax
import jax.numpy as jnp

device = jax.devices("xpu")[0]
x = np.linspace(-8, 8, 1000, dtype=np.float32)

def softsign(x):
    result = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.ffi.ffi_call("abacus.softsign", result)(x)

compiled = jax.jit(lambda x: 2 * softsign(x) + 1).lower(jax.device_put(x, device)).compile()
np.testing.assert_allclose(compiled(x), 2 * (x / (1 + np.abs(x))) + 1, rtol=1e-6)
text = compiled.as_text()
assert text.count("fusion(") == 1, text
assert text.count('custom_call_target="abacus.softsign"') == 1, text
print("ran on", device.platform)
"""


def install(folder: Path, module: str) -> dict[str, str]:
    """A distribution with ``module`` as its module of ops; the environment in which it is installed."""
    (folder / "abacus").mkdir(parents=True)
    (folder / "abacus" / "ops.py").write_text(module)
    about = folder / "abacus-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: abacus\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[tripont.ops]\nabacus = abacus.ops\n")
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, "TRIPONT_CACHE_DIR": str(folder / "cache")}


def example() -> str:
    """The module of the documentation."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    found = re.search(
        r"^  ```python\n(.*?abacus/ops\.py.*?)^  ```$", text, re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return textwrap.dedent(found[1])


def run(environment: dict[str, str], program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_example_runs(tmp_path: Path) -> None:
    done = run(install(tmp_path, example()), PROGRAM)
    assert done.returncode == 0, done.stderr
    assert "ran on xpu" in done.stdout


def test_without_the_package_the_call_is_unknown(tmp_path: Path) -> None:
    done = run({**os.environ, "TRIPONT_CACHE_DIR": str(tmp_path)}, PROGRAM)
    assert done.returncode != 0
    assert "abacus.softsign" in done.stderr


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ("    shape=same_shape,\n", "the op 'softsign' is registered without its part 'shape'"),
        ("    generate=generate,\n", "the op 'softsign' is registered without its part 'code'"),
    ],
)
def test_an_op_that_lacks_a_part_is_refused(tmp_path: Path, part: str, message: str) -> None:
    module = example()
    assert part in module
    done = run(install(tmp_path, module.replace(part, "")), PROGRAM)
    assert done.returncode != 0
    assert f"the ops of abacus.ops cannot be loaded: {message}" in done.stderr
