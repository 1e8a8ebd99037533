"""Dumps whose description is damaged: an error that says where, never a traceback or a page of something else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tripont.explain.dump_folder import ExplainError, choose, read_folder
from tripont.explain.measure import Timeline
from tripont.explain.report import build

EXAMPLE = Path(__file__).parents[1] / "fuzzers" / "corpus" / "explained_dump" / "example.json"


def explain(folder: Path, text: str) -> dict[str, Any]:
    (folder / "module_0001.main.module.json").write_text(text)
    return build(choose(read_folder(folder), ""), Timeline(reason="not run"))


def replaced(*path: str | int, by: Any) -> str:
    description = json.loads(EXAMPLE.read_text())
    container = description
    for key in path[:-1]:
        container = container[key]
    container[path[-1]] = by
    return json.dumps(description)


def test_the_example_is_right(tmp_path: Path) -> None:
    assert explain(tmp_path, EXAMPLE.read_text())["operations"][0]["thunk"] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (replaced("costs", by={}), "costs.flops is missing"),
        (replaced("costs", "nanoseconds", by="1"), "costs.nanoseconds is not a number"),
        (replaced("costs", "nanoseconds", by=float("nan")), "costs.nanoseconds is not a number"),
        (replaced("costs", "nanoseconds", by=10**400), "costs.nanoseconds is not a number"),
        (replaced("operations", by=None), "operations is not a list"),
        (replaced("operations", 0, by=[]), r"operations\[0\] is not an object"),
        (replaced("operations", 0, "sources", 0, "line", by="3"), "line is not a whole number"),
        (replaced("operations", 0, "thunk", by=1), "names a thunk that does not exist"),
        (replaced("operations", 0, "thunk", by=True), "thunk is not a whole number"),
        (replaced("thunks", 0, "number", by=5), "not numbered depth first"),
        (replaced("thunks", 0, "branches", by=[[{}]]), r"branches\[0\]\[0\].number is missing"),
        (replaced("files", by={"a": 5}), r"files\[0\] is not text"),
        (replaced("files", by=[]), "files is not an object"),
    ],
)
def test_damage_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ExplainError, match=f"is damaged: .*{message}"):
        explain(tmp_path, text)


def test_names_of_passes_that_are_not_ours(tmp_path: Path) -> None:
    stages = dict.fromkeys(("optimization.txt", "x.optimization.y.txt", "1.optimization.txt"), "f")
    assert explain(tmp_path, replaced("files", by=stages))["stages"] == []


@pytest.mark.parametrize("around", ["[", '{"a":'])
def test_deep_nesting(tmp_path: Path, around: str) -> None:
    with pytest.raises(ExplainError, match="is damaged"):
        explain(tmp_path, around * 100_000)
