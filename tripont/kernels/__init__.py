"""Kernels of your own: a C function, or one in LLVM IR or SPIR-V, that programs of every framework call by its name.

.. code-block:: python

    import tripont.kernels

    scale = tripont.kernels.from_c('''
        void scale(const float* x, int64_t x_size, float factor, float* y) {
            for (int64_t i = 0; i < x_size; ++i) y[i] = factor * x[i];
        }
    ''')
    y = jax.jit(lambda x: scale(x, factor=2.0))(x)   # x: float32 on an xpu device

The same object takes tensors of TensorFlow (on XPU) and of PyTorch/XLA.

The prototype is the whole description. ``const`` pointers are operands, other pointers results, numbers are
attributes, given by keyword. A few names are filled in by the runtime: for an array ``x`` the parameters ``x_size``,
``x_rank``, ``x_dim0``, ``x_dim1``, ... and ``const int64_t* x_dims``; ``begin`` and ``end`` make a kernel parallel.
docs/custom-kernels.md says everything.
"""

from __future__ import annotations

from tripont.core.compiler import wings

from .kernel import Kernel
from .making import from_c, from_llvm_ir, from_spirv
from .prototype import SignatureError

wings.check_built("kernels")

__all__ = ["Kernel", "SignatureError", "from_c", "from_llvm_ir", "from_spirv"]
