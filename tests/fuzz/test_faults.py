"""The fuzzers find faults that are put into the compiler."""

from __future__ import annotations

import pytest

from tests.fuzz import children
from tests.fuzz.faults import FAULTS
from tests.fuzz.fuzzers import FRAMEWORKS, FUZZERS
from tests.fuzz.judge import findings

# Each was found within a third of this; 600 programs take under ten minutes on a machine that does nothing else.
_MOST = 600


def _said(fuzzer: str, seed: int) -> str:
    if fuzzer in FRAMEWORKS:
        return " | ".join(FRAMEWORKS[fuzzer](seed))
    return " | ".join(findings(FUZZERS[fuzzer](seed), seed))


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "TRIPONT_VERIFY", "0"
    )  # as users have it: the checks of tests would find some at once
    fault, fuzzer, first = FAULTS[name]
    found = None
    with fault():
        # The programs before the one that has shown it last, where that one shows it no more.
        for seeds in (range(first, first + _MOST), range(max(0, first - _MOST), first)):
            said = children.outcomes(seeds, lambda s: _said(fuzzer, s))
            found = next(((seed, what) for seed, what in said if what), None)
            said.close()
            if found is not None:
                break
    assert found is not None, f"{_MOST} programs do not show it"
    print(f"{name}: program {found[0]}: {found[1][:200]}")
