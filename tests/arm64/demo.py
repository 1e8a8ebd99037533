"""``python -m tests.arm64.demo``: some steps of the demo, examples/jax_digits, on xpu and on JAX's own CPU backend."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "examples/jax_digits"))
import train

STEPS = 4
# The loss falls by a tenth in these steps; sums of floats in another order change it by less than this.
TOLERANCE = 1e-3


def losses(device: jax.Device) -> list[float]:
    x, y, *_ = train.load_data()
    found = []
    with jax.default_device(device):
        parameters, state = train.init(jax.random.key(0), x[: train.BATCH])
        for step in range(STEPS):
            part = slice(step * train.BATCH, (step + 1) * train.BATCH)
            parameters, state, loss = train.train_step(parameters, state, x[part], y[part])
            found.append(float(loss))
    return found


def main() -> int:
    device = jax.devices()[0]
    ours, wanted = losses(device), losses(jax.devices("cpu")[0])
    print(f"{device.device_kind}: losses {ours}; JAX's CPU backend: {wanted}")
    good = (
        device.platform == "xpu"
        and np.allclose(ours, wanted, rtol=TOLERANCE)
        and ours[-1] < ours[0]
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
