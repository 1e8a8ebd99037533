"""Every configuration of the registry, and that no op lacks one.

TRIPONT_CONFORMANCE: ``full`` for every configuration, ``first`` for one of each op; else a sample.
"""

from __future__ import annotations

import os
import warnings

import pytest
from tripont.core.compiler import hlo

from tests.conformance import coverage, registry
from tests.conformance.registry import Case

_ALL = registry.load()
_EXTENT = os.environ.get("TRIPONT_CONFORMANCE", "")
_CHOSEN = _ALL if _EXTENT == "full" else registry.sample(_ALL, 0 if _EXTENT == "first" else 16)


def test_every_operation_has_a_configuration() -> None:
    have = {c.op for c in _ALL} | set(registry.WITHOUT_CASES)
    assert [op for op in registry.dialect_operations() if op not in have] == []


def test_every_opcode_has_a_configuration() -> None:
    have = {c.op.removeprefix("chlo.").replace("_", "-") for c in _ALL}
    missing = [op for op in hlo.OPCODES if op not in have and op not in registry.OPCODES_COVERED_AS]
    assert missing == []


def test_names_are_unique() -> None:
    names = [c.name for c in _ALL]
    assert sorted({n for n in names if names.count(n) > 1}) == []


def test_document_is_up_to_date() -> None:
    assert coverage.DOCUMENT.read_text() == coverage.document(), "run make conformance"


@pytest.mark.parametrize("case", _CHOSEN, ids=lambda c: c.name)
def test_configuration(case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy on NaN and infinities
        outcome = registry.run_case(case)
    if case.refused:
        assert case.refused in outcome.message, "the program was not refused"
        return
    assert not outcome.detail, (
        f"{outcome.distance} ulps, at most {case.limit} allowed: {outcome.detail}"
    )
