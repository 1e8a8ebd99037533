"""The C++ headers of core/schema, and the tables that they are made from."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.ir import dtypes
from tripont.core.schema import generate
from tripont.core.schema.element_types import ELEMENT_TYPES
from tripont.core.schema.status_codes import STATUS_CODES


def test_numbers_are_unique_and_widths_are_numpys() -> None:
    assert len({t.number for t in ELEMENT_TYPES}) == len(ELEMENT_TYPES)
    for dtype in dtypes.ALL:
        (row,) = (t for t in ELEMENT_TYPES if t.number == dtype.code)
        assert row.bytes == dtype.size
    assert {t.name for t in ELEMENT_TYPES} == {d.name for d in dtypes.ALL} | {"token"}


@pytest.mark.parametrize(
    ("name", "constant"),
    [("INVALID_ARGUMENT", "kInvalidArgument"), ("OK", "kOk"), ("DATA_LOSS", "kDataLoss")],
)
def test_names_of_status_codes(name: str, constant: str) -> None:
    assert generate.constant(name) == constant
    assert f"  {constant} = {STATUS_CODES.index(name)}," in generate.status_codes()


def test_headers_that_do_not_change_are_left_alone(tmp_path: Path) -> None:
    """Else every build would compile everything again."""
    generate.main(tmp_path)
    headers = sorted(tmp_path.rglob("*.h"))
    before = [h.stat().st_mtime_ns for h in headers]
    generate.main(tmp_path)
    assert headers
    assert before == [h.stat().st_mtime_ns for h in headers]


def test_the_abi_of_backends_changes_with_declarations_alone(tmp_path: Path) -> None:
    source = Path(__file__).resolve().parents[3] / "core" / "runtime"
    runtime = tmp_path / "core" / "runtime"
    runtime.mkdir(parents=True)
    for header in source.glob("*.h"):
        shutil.copy(header, runtime)
    before = generate.backend_abi(tmp_path)
    assert before == generate.backend_abi(source.parents[1])
    queue = runtime / "backend.h"
    text = queue.read_text()
    queue.write_text("// A comment.\n\n" + text)
    assert generate.backend_abi(tmp_path) == before
    old = "virtual int device_number() const = 0;"
    assert old in text
    queue.write_text(text.replace(old, f"virtual void Stop() = 0;\n  {old}"))
    assert generate.backend_abi(tmp_path) != before
    status = runtime / "status.h"  # which backend.h includes
    queue.write_text(text)
    status.write_text(
        status.read_text().replace("namespace tripont {", "namespace tripont {\nstruct New;", 1)
    )
    assert generate.backend_abi(tmp_path) != before


def test_the_runtime_has_the_same_types(client: _tripont.Client) -> None:
    """Arrays of every type go through the C++ side under their own names."""
    for row in ELEMENT_TYPES:
        if row.kind == "token" or row.name in ("c64", "c128"):
            continue
        array = np.zeros(3, dtypes.from_name(row.name).numpy)
        buffer = _tripont.Buffer.from_array(array, client.devices[0])
        assert buffer.dtype == row.name
        assert buffer.numpy().dtype.itemsize == row.bytes
