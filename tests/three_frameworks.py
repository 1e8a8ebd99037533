"""JAX, PyTorch and TensorFlow, imported by a process that forks for programs with all three (tests/starter.py).

PyTorch/XLA's library has to come before TensorFlow: both register the same option of LLVM. Neither has a device yet;
:func:`load` does what is left of the imports.
"""

from __future__ import annotations

import jax.numpy  # noqa: F401
import torch._dynamo
import torch._inductor.fx_passes.post_grad  # noqa: F401 - torch_xla imports it

import _XLAC  # noqa: F401  # isort: skip

from tests.tensorflow_without_plugins import load_plugins


def load() -> None:
    """The end of ``import tripont.torch_xla, tensorflow``."""
    import tripont.torch_xla  # noqa: F401

    load_plugins()
