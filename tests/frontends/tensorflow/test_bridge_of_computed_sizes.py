"""What TensorFlow's bridge makes of arrays whose sizes depend on values: as on the CPU device op by op, or refused.

The bridge takes the bound for the size in many of its kernels; ``nextpluggable/bridge`` stands before all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from .cases import difference
from .cases_computed_sizes import ERRORS, GROUPS, REFUSED, VECTORS, positive


def _run(function: Any, argument: np.ndarray, device: str) -> Any:
    with tf.device(device):
        return tf.nest.map_structure(np.asarray, function(tf.constant(argument, tf.float32)))


@pytest.mark.parametrize("name", GROUPS)
def test_as_on_the_cpu(name: str) -> None:
    group, arguments = GROUPS[name]
    every = lambda x: {case: f(x) for case, f in group.items()}
    compiled = tf.function(every, autograph=False, jit_compile=True)
    wrong = []
    for argument in arguments:
        wanted, actual = _run(every, argument, "CPU:0"), _run(compiled, argument, "XPU:0")
        for case in group:
            pairs = zip(tf.nest.flatten(actual[case]), tf.nest.flatten(wanted[case]), strict=True)
            problems = [p for a, e in pairs if (p := difference(a, e, 64))]
            wrong += [f"{case} of {argument.tolist()}: {p}" for p in problems]
    assert not wrong, "\n".join(wrong)
    assert compiled.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("name", ERRORS)
def test_too_few_elements_are_an_error(name: str) -> None:
    """Where there are enough, the result is right."""
    compiled = tf.function(ERRORS[name], autograph=False, jit_compile=True)
    failed = 0
    for argument in VECTORS:
        try:
            wanted = _run(ERRORS[name], argument, "CPU:0")
        except tf.errors.InvalidArgumentError:
            failed += 1
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"than an array has|has none"):
                _run(compiled, argument, "XPU:0")
            continue
        actual = _run(compiled, argument, "XPU:0")
        for a, e in zip(tf.nest.flatten(actual), tf.nest.flatten(wanted), strict=True):
            assert not difference(a, e, 4)
    assert 0 < failed < len(VECTORS)


@pytest.mark.parametrize("op", REFUSED)
def test_refused_by_name(op: str) -> None:
    compiled = tf.function(REFUSED[op], autograph=False, jit_compile=True)
    with pytest.raises(tf.errors.UnimplementedError, match=rf"tripont: {op} .* depends on values"):
        _run(compiled, VECTORS[0], "XPU:0")


def test_every_op_that_is_not_known_is_refused() -> None:
    """An op that has no rule, here TensorFlow's quantization by the largest and least elements."""
    function = lambda x: tf.quantization.quantize_and_dequantize_v2(positive(x), 0.0, 1.0)
    with pytest.raises(tf.errors.UnimplementedError, match="tripont: QuantizeAndDequantize"):
        _run(tf.function(function, autograph=False, jit_compile=True), VECTORS[0], "XPU:0")


def test_ops_of_known_sizes_are_tensorflows_own() -> None:
    """Among them those that are refused for other sizes."""
    function = lambda x: (tf.linalg.diag(x), tf.pad(x, [[1, 1]], "REFLECT"), x[::-2], x[-2:])
    wanted = _run(function, VECTORS[0], "CPU:0")
    actual = _run(tf.function(function, autograph=False, jit_compile=True), VECTORS[0], "XPU:0")
    for a, e in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(a, e)
