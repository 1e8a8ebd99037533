"""Products and convolutions of integers are exact at every level of instructions that the machine has."""

from __future__ import annotations

import pytest

from tests.cpus import levels


@pytest.mark.parametrize("level", levels.LEVELS)
def test_the_worst_values(level: str, tmp_path) -> None:
    if missing := levels.lacking(level):
        pytest.skip(f"this machine has no {', '.join(missing)}")
    # More threads of NumPy's BLAS would spin while others compute.
    more = {"OPENBLAS_NUM_THREADS": "1"}
    done = levels.run(level, "tests.cpus.integer_products", more=more)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_cap_that_the_compiler_does_not_know_of_is_refused() -> None:
    """ONEDNN_MAX_CPU_ISA below what a program was compiled for would give wrong numbers."""
    if missing := levels.lacking("x86-64-v3+avxvnni"):
        pytest.skip(f"this machine has no {', '.join(missing)}")
    more = {"ONEDNN_MAX_CPU_ISA": "AVX2"}
    done = levels.run("host", "tests.cpus.integer_products", more=more)
    assert done.returncode != 0
    assert "without VNNI" in done.stderr
    assert "ONEDNN_MAX_CPU_ISA=AVX2" in done.stderr
    assert "TRIPONT_CPU" in done.stderr
