"""Layouts do not change without a new version, and a field is one line for both languages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tripont.core.schema import artifact, codec, generate, layouts, messages


@pytest.mark.parametrize("module", [artifact, messages], ids=lambda module: module.__name__)
def test_a_layout_that_changes_has_a_new_version(module: ModuleType) -> None:
    name = module.__name__.rpartition(".")[2]
    current, versions = layouts.digest(module), layouts.LAYOUTS[name]
    assert list(versions) == sorted(versions), f"the newest version of {name!r} stands last"
    assert versions[layouts.version(name)] == current, (
        f"the layout that core/schema/{name}.py defines has changed, and readers of the last version must refuse it: "
        f'add the line `{layouts.version(name) + 1}: "{current}",` to {name!r} in core/schema/layouts.py'
        " (and let `python -m tests.fuzzers.seeds` write the corpus of the fuzzers anew, which is in the format)"
    )


@pytest.fixture
def changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function: a copy of a module of core/schema in which the text ``old`` is ``new``."""

    def change(module: ModuleType, old: str, new: str) -> ModuleType:
        text = Path(str(module.__file__)).read_text()
        assert text.count(old) == 1
        file = tmp_path / "changed.py"
        file.write_text(text.replace(old, new))
        spec = importlib.util.spec_from_file_location(f"{module.__package__}.changed", file)
        assert spec is not None
        assert spec.loader is not None
        copy = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, copy.__name__, copy)
        spec.loader.exec_module(copy)
        return copy

    return change


def test_a_field_of_a_message_is_one_line(changed) -> None:
    line = "    reused: bool = False\n"
    module = changed(messages, line, line + "    slots: U32 = 7\n")
    response = module.Response(0, slots=1, artifact=b"code")
    written = codec.Codec(module).write(response)
    assert codec.Codec(module).read(module.Response, written) == {
        "code": 0,
        "message": b"",
        "reused": False,
        "slots": 1,
        "artifact": b"code",
    }
    header = "\n".join(generate.records(module))
    assert "  uint32_t slots = 7;" in header
    assert 'std::pair("slots", &Response::slots), std::pair("artifact"' in header


def test_a_field_of_the_artifact_is_one_line(changed) -> None:
    module = changed(artifact, "    grain: I64\n", "    grain: I64\n    scratch: I64\n")
    header = "\n".join(generate.records(module))
    assert "  int64_t scratch{};" in header
    assert 'std::pair("grain", &Kernel::grain), std::pair("scratch", &Kernel::scratch)' in header


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    grain: I64\n", "    grain: I64\n    scratch: I64\n"),
        ("    work_count: I64\n    grain: I64\n", "    grain: I64\n    work_count: I64\n"),
        ("    grain: I64\n", "    grain: F64\n"),
        ("    grain: I64\n", "    unit: I64\n"),
        ("    TEMP = 3\n", "    TEMP = 3\n    FILE = 4\n"),
        ("| bytes | FunctionOffset\n\n\n@", "| FunctionOffset | bytes\n\n\n@"),
        ("_results: U64 = field(default=-1, metadata=IN_SIZES)", "_results: U64 = -1"),
    ],
)
def test_what_changes_a_layout(changed, old: str, new: str) -> None:
    assert layouts.digest(changed(artifact, old, new)) != layouts.digest(artifact)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('memory_kind: str = "device"', 'memory_kind: str = "host"'),  # a default is not written
        ('"""A compiled program."""', '"""A program."""'),
    ],
)
def test_what_does_not_change_a_layout(changed, old: str, new: str) -> None:
    assert layouts.digest(changed(artifact, old, new)) == layouts.digest(artifact)
