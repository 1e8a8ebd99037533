"""Every test of the compiler writes its kernels itself: it may have replaced what writes them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tripont.core.compiler.codegen.kernels import written


@pytest.fixture(autouse=True)
def _no_kernels_of_other_tests() -> Iterator[None]:
    written.clear()
    yield
    written.clear()
