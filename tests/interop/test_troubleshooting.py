"""docs/troubleshooting.md has an entry for every error of tripont.interop."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def texts() -> dict[str, str]:
    """What the calls of ``ExchangeError`` and ``needs_copy`` say, values left out: by file and line."""
    found = {}
    for path in (ROOT / "tripont" / "interop").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                position = {"ExchangeError": 0, "needs_copy": 1}.get(node.func.id)
                if position is not None:
                    found[f"{path.name}:{node.lineno}"] = longest(node.args[position])
    return found


def longest(message: ast.expr) -> str:
    """The longest part of a message that is the same for all arrays."""
    parts = [n.value for n in ast.walk(message) if isinstance(n, ast.Constant)]
    return max((str(part).strip(" :;,(){}'") for part in parts), key=len, default="")


def test_every_error_has_an_entry() -> None:
    document = re.sub(r"\s+", " ", (ROOT / "docs" / "troubleshooting.md").read_text())
    found = texts()
    assert len(found) > 20
    missing = {
        where: text for where, text in found.items() if text and text[:30].strip() not in document
    }
    assert not missing
