"""Choose library calls: large dots, convolutions, sorts and linear algebra become ``library-call`` instructions.

:func:`match_library` is the pass. It runs after simplification and before fusion, on every computation that
is executed as a sequence of thunks (the entry, and what ``while``, ``conditional`` and ``call`` run; never the
scalar bodies of reductions and the like). Each rule is one function from an instruction to its replacement or None:

=================  =======================  ===================================================================
opcode             library call             left to generated code
=================  =======================  ===================================================================
dot                gemm (oneDNN, f32)       all others: with packing (:mod:`.packed`) or, small ones, without
add, multiply ...  gemm's epilogue          what other elementwise operations read, and all but f32
convolution        convolution (oneDNN)     f64, complex, wide integers, integers with long sums
sort               sort                     nothing
topk               topk                     nothing
fft                fft                      nearly all on CPUs (:mod:`.fft`)
cholesky           cholesky                 nothing
triangular-solve   triangular-solve         nothing
add, and others    cholesky-gradient        all but Cholesky's gradients (:mod:`.cholesky_gradient`)
=================  =======================  ===================================================================

Products that are generated with packing pass through the same rules, as calls of gemm, and are replaced at the end.
What oneDNN may be asked for on which CPU stands in one table, :mod:`.onednn`.

A ``library-call`` has the attributes ``name`` and ``config``; the ``config`` entries become the artifact's
attributes, but for ``cost_ns``, the estimate of its time. A call that needs a function of the program (a sort's
comparator, a collective's reduction) has it in ``called``, and lowering adds the function's address as an attribute
(:mod:`...codegen.callbacks`).
"""

from .match import match_library

__all__ = ["match_library"]
