"""A model with both kinds of kernels in one graph: compiled programs, and an op written by hand in C++.

Sixteen signals go through a small convolution (compiled), each sample becomes the number of its strongest filter
(compiled), runs of equal numbers are encoded by RunLengthEncode (run_length_encode.cc, compiled here with the C++
compiler of this machine), and the mean length of the runs of each filter comes out (compiled again). All on
/device:XPU:0.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import numpy as np
import tensorflow as tf

import tripont.tensorflow

SOURCE = Path(__file__).with_name("run_length_encode.cc")
FILTERS = 4


def build(folder: str) -> Any:
    """Compile the library into ``folder`` and open it: the module of its ops."""
    library = Path(folder, "run_length_encode.so")
    compiler = os.environ.get("CXX", "c++")
    command = [compiler, "-O2", str(SOURCE), *tripont.tensorflow.compile_flags()]
    command += ["-o", str(library), *tripont.tensorflow.link_flags()]
    subprocess.run(command, check=True)
    return tf.load_op_library(str(library))


def make_model(ops: Any) -> Any:
    """signals [n, samples], filters [width, 1, FILTERS] -> mean length of the runs of each filter, [FILTERS]."""

    @tf.function
    def model(signals: tf.Tensor, filters: tf.Tensor) -> tf.Tensor:
        response = tf.nn.conv1d(signals[..., None], filters, stride=1, padding="SAME")
        strongest = tf.argmax(response, axis=-1)
        values, lengths = ops.run_length_encode(tf.reshape(strongest, [-1]))
        total = tf.math.unsorted_segment_sum(tf.cast(lengths, tf.float32), values, FILTERS)
        runs = tf.math.unsorted_segment_sum(tf.ones_like(lengths, tf.float32), values, FILTERS)
        return total / tf.maximum(runs, 1.0)

    return model


def with_numpy(signals: np.ndarray, filters: np.ndarray) -> np.ndarray:
    """The same, for comparison."""
    padded = np.pad(signals, ((0, 0), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=1)
    strongest = (windows @ filters[:, 0, :]).argmax(-1).reshape(-1)
    starts = np.flatnonzero(np.r_[True, strongest[1:] != strongest[:-1]])
    lengths = np.diff(np.r_[starts, strongest.size])
    means = [lengths[strongest[starts] == k] for k in range(FILTERS)]
    return np.array([m.mean() if m.size else 0.0 for m in means])


def main() -> None:
    tripont.tensorflow.check()
    rng = np.random.default_rng(0)
    signals = rng.normal(size=(16, 512)).cumsum(axis=1).astype(np.float32)
    filters = rng.normal(size=(3, 1, FILTERS)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(build(folder))
        with tf.device("/device:XPU:0"):
            result = model(tf.constant(signals), tf.constant(filters))
        print("computed on", result.device.rsplit("/", 1)[-1])
        print("mean length of runs:", result.numpy().round(3))
        expected = with_numpy(signals, filters)
        print("with NumPy:         ", expected.round(3))
        np.testing.assert_allclose(result, expected, rtol=1e-5)
        print("ops on the CPU:", tripont.tensorflow.ops_on_cpu() or "none")


if __name__ == "__main__":
    main()
