"""Some steps of the demo, examples/jax_digits, on two machines.

``python -m tests.arm64.demo cpu`` prints the losses of JAX's own CPU backend; ``python -m tests.arm64.demo LOSSES``
trains on xpu and compares. (XLA's compiler takes minutes in an emulator.)
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2] / "examples/jax_digits"))
import train

STEPS = 4
# The longest sums, of the first convolution's gradient, have 8,192 terms; in another order their rounding errors, which
# grow with the square root of that, are 1e-5 of them. (Constants from wrong places changed the second loss by 4e-4.)
TOLERANCE = 8192**0.5 * float(np.finfo(np.float32).eps)


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


def main(wanted: str) -> int:
    if wanted == "cpu":
        print(json.dumps(losses(jax.devices("cpu")[0])))
        return 0
    device = jax.devices()[0]
    found = losses(device)
    print(f"{device.device_kind}: losses {found}; JAX's CPU backend on x86-64: {wanted}")
    close = np.allclose(found, json.loads(wanted), rtol=TOLERANCE)
    return 0 if device.platform == "xpu" and close and found[-1] < found[0] else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
