"""What each op does with operands whose sizes depend on values: its rule, or that programs which need one are refused.

Elementwise ops have one rule together (:func:`.rules.of_elementwise`), also those of other packages; another op of a
package brings its rule with its registration (``Op.sizes``).
"""

from __future__ import annotations

from typing import Final

from . import reshapes, rules
from .resolve import RULES, conditional, while_loop

RULES.update(
    {
        "bitcast-convert": rules.of_bitcast_convert,
        "broadcast": rules.of_broadcast,
        "cholesky": rules.of_matrices,
        "concatenate": rules.of_concatenate,
        "conditional": conditional,
        "convolution": rules.of_convolution,
        "copy": rules.of_elementwise,
        "dot": rules.of_dot,
        "dynamic-reshape": reshapes.dynamic_reshape,
        "dynamic-slice": rules.of_dynamic_slice,
        "dynamic-update-slice": rules.of_dynamic_update_slice,
        "fft": rules.of_matrices,
        "gather": rules.of_gather,
        "get-dimension-size": rules.of_get_dimension_size,
        "optimization-barrier": rules.of_barrier,
        "pad": rules.of_pad,
        "reduce": rules.of_reduce,
        "reduce-window": rules.of_reduce_window,
        "reshape": reshapes.reshape,
        "reverse": rules.of_reverse,
        "scatter": rules.of_scatter,
        "set-dimension-size": rules.of_set_dimension_size,
        "slice": rules.of_slice,
        "sort": rules.of_sort,
        "topk": rules.of_topk,
        "transpose": rules.of_transpose,
        "triangular-solve": rules.of_matrices,
        "while": while_loop,
    }
)

#: Ops for which there is no rule: collectives, calls of the user's code, what has no operands, and what comes later.
REFUSED: Final = frozenset(
    (
        *("partition-id", "replica-id", "all-reduce", "all-gather", "all-to-all", "reduce-scatter"),
        *("collective-permute", "collective-broadcast", "call", "custom-call", "library-call"),
        "collective-done",
        *("tuple", "get-tuple-element", "after-all", "parameter", "constant", "iota", "bitcast"),
        *("batch-norm-training", "batch-norm-inference", "batch-norm-grad", "rng", "map"),
        *("rng-bit-generator", "select-and-scatter", "fusion", "pack", "packed-dot", "fft-pass"),
        *(
            "window-product",
            "depthwise-product",
            "block-transpose",
            "allocate-buffer",
            "ragged-dot",
        ),
    )
)

__all__ = ["REFUSED"]
