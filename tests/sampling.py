"""The part of the tests that `make test-fast` runs.

With ``--sample 8`` one row in eight runs of each test that has parameters, and at least one: so every test function
does, and every file. A hash of its name chooses a row, the same each time. A table that is cheap, or the only one that
has every case of something (as tests/conformance/test_conformance.py has every op), keeps all rows::

    @pytest.mark.whole

Without ``--sample``, as in `make test`, every row runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import pytest


def left_out_of_sample(items: Iterable[pytest.Item], share: int) -> set[pytest.Item]:
    """The rows that do not run when one in ``share`` does."""
    tables: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("whole") is None:
            tables.setdefault(item.nodeid.partition("[")[0], []).append(item)
    return {row for rows in tables.values() for row in _ranked(rows)[-(-len(rows) // share) :]}


def _ranked(rows: Sequence[pytest.Item]) -> list[pytest.Item]:
    return sorted(rows, key=lambda row: (zlib.crc32(row.nodeid.encode()), row.nodeid))
