"""A few random functions of TensorFlow; ``python -m tests.fuzz --only tensorflow`` tries others."""

from __future__ import annotations

import pytest

from tests.fuzz import tensorflow_functions


@pytest.mark.parametrize("seed", range(6))
def test_random_functions(seed: int) -> None:
    assert tensorflow_functions.findings(seed) == []


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import tensorflow as tf

    usual, devices = tf.reverse, []

    def wrong(x: tf.Tensor, axis: list[int]) -> tf.Tensor:
        devices.append(x.device)
        return usual(x, axis) if "CPU" in x.device else tf.identity(x)

    monkeypatch.setattr(tf, "reverse", wrong)
    assert any(tensorflow_functions.findings(seed) for seed in range(12)), devices
