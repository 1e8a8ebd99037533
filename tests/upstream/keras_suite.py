"""Keras's own tests with TensorFlow as its backend, on the device ``XPU``.

    python -m tests.upstream.keras_suite                         clones the installed Keras's version, and runs 20 tests
                                                                 of each file
    python -m tests.upstream.keras_suite --minutes 30 --seed 7   others, as many as fit into half an hour
    python -m tests.upstream.keras_suite --cases 0 layers/rnn    all tests of the files of such a name
    python -m tests.upstream.keras_suite --report --table        runs nothing: what earlier results say

The tests are those of a checkout (Apache 2.0; nothing of them is kept here), each run within ``tf.device("XPU:0")``.
What fails runs again on TensorFlow's CPU. ``suites.py`` says how the tests are judged; the known failures are in
``known_failures_of_keras.toml``.
"""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Mapping

from . import suites
from .jax_suite import HERE


def environment(device: str) -> Mapping[str, str]:
    return {"KERAS_BACKEND": "tensorflow", "SUITE_DEVICE": device, "TF_CPP_MIN_LOG_LEVEL": "2"}


SUITE = suites.Suite(
    name="keras",
    repository="https://github.com/keras-team/keras",
    version=lambda: importlib.metadata.version("keras"),
    folders=("keras",),
    patterns=("keras/src/**/*_test.py",),
    plugin="xpu_under_keras_tests",
    environment=environment,
    known=HERE / "known_failures_of_keras.toml",
    description=__doc__ or "",
    together=12,
)

if __name__ == "__main__":
    sys.exit(suites.main(SUITE, sys.argv[1:]))
