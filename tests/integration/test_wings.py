"""An installation without the files of any wing: JAX runs on the device."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tripont.core.compiler import wings

PROGRAM = """
import jax, jax.numpy as jnp, numpy as np, tripont

print(tripont.__file__)
print(jax.devices()[0].platform)
np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(jnp.arange(4.0)), [1, 2, 3, 4])
a = np.arange(300 * 300, dtype=np.float32).reshape(300, 300) % 7
np.testing.assert_array_equal(jax.jit(jnp.matmul)(a, a), a @ a)

def loss(parameters, x, y):
    w, b, v = parameters
    logits = jax.nn.gelu(x @ w + b) @ v
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))

@jax.jit
def step(parameters, x, y):
    value, gradient = jax.value_and_grad(loss)(parameters, x, y)
    return jax.tree.map(lambda p, g: p - 0.5 * g, parameters, gradient), value

keys = jax.random.split(jax.random.key(0), 3)
x, y = jax.random.normal(keys[0], (128, 64)), jnp.arange(128) % 10
parameters = [jax.random.normal(keys[1], (64, 32)) * 0.1, jnp.zeros(32), jax.random.normal(keys[2], (32, 10)) * 0.1]
losses = []
for _ in range(20):
    parameters, value = step(parameters, x, y)
    losses.append(float(value))
assert losses[-1] < 0.9 * losses[0], losses
# The expansions of CHLO and of JAX in the place of the special functions. Two of lgamma's steps are an error of 2e-6.
np.testing.assert_allclose(jax.scipy.special.gammaln(jnp.array([0.5, 3.0, 10.0])), [0.5723649, 0.6931472, 12.8018275], rtol=2e-6)
np.testing.assert_allclose(jax.scipy.special.gammainc(2.0, 1.0), 0.26424112, rtol=1e-5)
"""


@pytest.mark.slow
def test_jax_runs_without_wings(tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(Path(wings.__file__).parents[2], site / "tripont")
    for wing in wings.WINGS:
        for module in wing.modules:
            path = site / module.replace(".", "/")
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.with_suffix(".py").unlink()
    environment = {
        **os.environ,
        "PYTHONPATH": str(site),
        "TRIPONT_CACHE_DIR": str(tmp_path / "cache"),
        "JAX_PLATFORMS": "xpu,cpu",
    }
    work = tmp_path / "work"
    work.mkdir()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        cwd=work,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(site / "tripont" / "__init__.py"), "xpu"]
    # The worker ran the compiler of that installation too, and not that of the tests.
    assert "is not the one that this process knows" not in done.stderr
