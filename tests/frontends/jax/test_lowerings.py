"""What JAX cannot lower for xpu is known, and says so in words."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.frontends.jax import PLATFORM, compat, lowerings

# Only for platforms other than a CPU: kernels of NVIDIA's libraries, and collectives.
OF_GPUS = {
    "cudnn_fusion",
    "dot_product_attention_bwd",
    "dot_product_attention_fp8_bwd",
    "dot_product_attention_fp8_fwd",
    "dot_product_attention_fwd",
    "pbroadcast_dynamic",
    "pbroadcast_start",
}


def test_every_missing_primitive_is_explained(xpu: Any) -> None:
    """A primitive that a new JAX has no portable lowering for must be entered in the list."""
    lowerings.register(PLATFORM)  # for the modules that were imported after JAX had started
    missing = compat.primitives_without_lowering(PLATFORM)
    assert set(missing) <= OF_GPUS, "add these to frontends/jax/lowerings.py"


@pytest.mark.skipif(
    jax.__version_info__ >= (0, 12), reason="JAX 0.12 lowers scaled_matmul everywhere"
)
def test_the_error_says_what_to_do(xpu: Any) -> None:
    lhs, scales = np.ones((1, 32, 64), jnp.float8_e4m3fn), np.ones((1, 32, 2), jnp.float8_e8m0fnu)
    assert "scaled_matmul" in lowerings.MISSING
    with jax.default_device(xpu), pytest.raises(NotImplementedError) as caught:
        jax.jit(jax.nn.scaled_matmul)(lhs, lhs, scales, scales)
    message = str(caught.value)
    assert "scaled_matmul" in message
    assert "float8_e4m3fn[1,32,64]" in message
    assert "jax.default_device" in message
