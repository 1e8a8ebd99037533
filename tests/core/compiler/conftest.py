"""Every test of the compiler writes its kernels itself: it may have replaced what writes them. What LLVM makes of them
is kept (:mod:`.kept_objects`).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tripont.core.compiler.codegen.kernels import written
from tripont.core.compiler.targets.host.target import HostTarget

from tests.core.compiler.kept_objects import KeptObjects, usual_folder


@pytest.fixture(autouse=True)
def _no_kernels_of_other_tests() -> Iterator[None]:
    written.clear()
    yield
    written.clear()


@pytest.fixture(scope="session", autouse=True)
def _kept_objects(pytestconfig: pytest.Config) -> Iterator[None]:
    if pytestconfig.getoption("--nightly"):
        yield
        return
    kept = KeptObjects(usual_folder())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            HostTarget, "elf_object", lambda target, *arguments: kept.elf_object(target, *arguments)
        )
        yield
    kept.forget_old_ones()
