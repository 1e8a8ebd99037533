"""TensorFlow's own tests of operations on the device ``XPU``.

    python -m tests.upstream.tensorflow_suite                         clones the installed TensorFlow's version, and
                                                                      runs 20 tests of each file
    python -m tests.upstream.tensorflow_suite --minutes 30 --seed 7   others, as many as fit into half an hour
    python -m tests.upstream.tensorflow_suite --cases 0 unary_ops     all tests of the files of such a name
    python -m tests.upstream.tensorflow_suite --checkout ~/tensorflow --table
    python -m tests.upstream.tensorflow_suite --report --table        runs nothing: what earlier results say

The files are the tests of TensorFlow's translation to XLA (``tensorflow/compiler/tests``), those of its kernels and
of ``tf.image``, ``tf.signal``, ``tf.sparse``, ``tf.ragged`` and ``tf.linalg``, and those of what runs them: functions
and gradients (``python/eager``), optimizers, ``tf.data``, strategies, modules, checkpoints and SavedModels (Apache 2.0;
nothing of them is kept here). The packages bring no tests. ``xpu_under_tensorflow_tests.py`` says how they get to the
device, ``suites.py`` how they are judged; the known failures are in ``known_failures_of_tensorflow.toml``.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping

from . import suites
from .jax_suite import HERE


def version() -> str:
    for package in ("tensorflow-cpu", "tensorflow"):
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    raise SystemExit("TensorFlow is not installed: make frameworks")


def environment(device: str) -> Mapping[str, str]:
    return {"SUITE_DEVICE": device, "TF_CPP_MIN_LOG_LEVEL": "2"}


KERNELS = "array_ops control_flow data_structures image_ops linalg math_ops nn_ops random signal sparse_ops variables"
#: The folders below ``tensorflow/python`` with tests of what builds on operations.
ABOVE = "checkpoint data distribute eager module saved_model trackable training"
SUITE = suites.Suite(
    name="tensorflow",
    repository="https://github.com/tensorflow/tensorflow",
    version=version,
    folders=(
        "tensorflow/compiler/tests",
        "tensorflow/python/kernel_tests",
        "tensorflow/python/ops",
        *(f"tensorflow/python/{folder}" for folder in ABOVE.split()),
    ),
    patterns=(
        "tensorflow/compiler/tests/*_test.py",
        *(f"tensorflow/python/kernel_tests/{folder}/**/*_test.py" for folder in KERNELS.split()),
        "tensorflow/python/kernel_tests/*_test.py",
        "tensorflow/python/ops/*_test.py",
        "tensorflow/python/ops/losses/*_test.py",
        "tensorflow/python/ops/numpy_ops/*_test.py",
        "tensorflow/python/ops/parallel_for/*_test.py",
        "tensorflow/python/ops/ragged/*_test.py",
        *(f"tensorflow/python/{folder}/**/*_test.py" for folder in ABOVE.split()),
    ),
    plugin="xpu_under_tensorflow_tests",
    environment=environment,
    known=HERE / "known_failures_of_tensorflow.toml",
    description=__doc__ or "",
    together=12,
)

if __name__ == "__main__":
    sys.exit(suites.main(SUITE, sys.argv[1:]))
