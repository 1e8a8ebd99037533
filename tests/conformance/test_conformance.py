"""Every configuration of the registry, on two devices and as HLO, and that no op lacks one.

TRIPONT_CONFORMANCE: ``full`` for every configuration, ``first`` for one of each op; else a sample, which is smaller on
the second device and as HLO.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import pytest
from tripont.core.compiler.ir.registry import all_ops

from tests.conformance import coverage, registry
from tests.conformance.registry import Case

# Here is every op.
pytestmark = pytest.mark.whole

_ALL = registry.load()
_EXTENT = os.environ.get("TRIPONT_CONFORMANCE", "")


def _chosen(cases: list[Case], rest: int) -> list[Case]:
    return cases if _EXTENT == "full" else registry.sample(cases, 0 if _EXTENT == "first" else rest)


def test_every_operation_has_a_configuration() -> None:
    have = {c.op for c in _ALL} | set(registry.WITHOUT_CASES)
    assert [op for op in registry.dialect_operations() if op not in have] == []


def test_every_opcode_has_a_configuration() -> None:
    have = {c.op.removeprefix("chlo.").replace("_", "-") for c in _ALL}
    opcodes = [op.name for op in all_ops()]
    missing = [op for op in opcodes if op not in have | set(registry.OPCODES_COVERED_AS)]
    assert missing == []


def test_every_opcode_of_hlo_has_a_configuration() -> None:
    have = {c.op for c in _ALL}
    missing = []
    for opcode in registry.hlo_opcodes():
        name = registry.HLO_OPCODES_COVERED_AS.get(opcode, opcode)
        if opcode in registry.HLO_OPCODES_WITHOUT_CASES:
            continue
        if not have & {name, f"hlo.{name}", name.replace("-", "_"), f"chlo.{name}"}:
            missing.append(opcode)
    assert missing == []


def test_names_are_unique() -> None:
    names = [c.name for c in _ALL]
    assert sorted({n for n in names if names.count(n) > 1}) == []


def test_document_is_up_to_date() -> None:
    assert coverage.DOCUMENT.read_text() == coverage.document(), "run make conformance"


@pytest.mark.parametrize("case", _chosen(_ALL, 16), ids=lambda c: c.name)
def test_configuration(case: Case) -> None:
    _check(case)


@pytest.mark.parametrize("case", _chosen(_ALL, 128), ids=lambda c: c.name)
def test_on_the_second_device(case: Case) -> None:
    _check(case, on=1)


@pytest.mark.parametrize(
    "case", _chosen([c for c in _ALL if registry.in_hlo(c)], 128), ids=lambda c: c.name
)
def test_as_hlo(case: Case) -> None:
    """The HloModuleProto that XLA makes of the program, as TensorFlow and PyTorch/XLA would hand it over."""
    _check(case, hlo=True)


def _check(case: Case, **way: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # NumPy on NaN and infinities
        outcome = registry.run_case(case, **way)
    if case.refused:
        assert case.refused in outcome.message, "the program was not refused"
        return
    assert not outcome.detail, (
        f"{outcome.distance} ulps, at most {case.limit} allowed: {outcome.detail}"
    )
