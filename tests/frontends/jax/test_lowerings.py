"""What JAX cannot lower for xpu is known, and says so in words."""

from __future__ import annotations

from typing import Any

import jax
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
    "pbroadcast",
    "pbroadcast_dynamic",
    "pbroadcast_start",
}


def test_every_missing_primitive_is_explained(xpu: Any) -> None:
    """A primitive that a new JAX has no portable lowering for must be entered in the list."""
    missing = compat.primitives_without_lowering(PLATFORM)
    assert set(missing) <= OF_GPUS, "add these to frontends/jax/lowerings.py"


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("debug_callback", lambda x: (jax.debug.callback(lambda a: None, x), x)[1]),
    ],
    ids=["debug_callback"],
)
def test_the_error_says_what_to_do(xpu: Any, name: str, function: Any) -> None:
    assert name in lowerings.MISSING
    with jax.default_device(xpu), pytest.raises(NotImplementedError) as caught:
        jax.jit(function)(np.eye(3, dtype=np.float32))
    message = str(caught.value)
    assert name in message
    assert "float32[3,3]" in message
    assert "jax.default_device" in message
