"""What tests compute for themselves takes one core: the others run tests."""

from __future__ import annotations

import os

import numpy as np
import pytest


def test_numpy_has_one_thread() -> None:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    libraries = threadpoolctl.threadpool_info()
    numpys = [found for found in libraries if f"{os.sep}numpy" in found["filepath"]]
    assert np.dot(np.ones(3), np.ones(3)) == 3
    assert {found["num_threads"] for found in numpys} <= {1}  # or it is another BLAS


def test_libraries_that_are_loaded_later_have_as_many_as_they_choose() -> None:
    """Among them the LAPACK of the runtime, which tests must find as users have it."""
    assert "OPENBLAS_NUM_THREADS" not in os.environ
