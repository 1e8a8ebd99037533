"""The report as one HTML file that needs nothing else: no network, no server."""

from __future__ import annotations

import base64
import html
import json
import zlib
from importlib import resources
from typing import Any, Final

# In the order in which the page runs them.
SCRIPTS: Final = (
    "state.js",
    "text.js",
    "list.js",
    "graph.js",
    "timeline.js",
    "stages.js",
    "main.js",
)
LARGEST_PAGE: Final = 5_000_000  # bytes; report.TEXT_BUDGET keeps pages below it


def write_page(report: dict[str, Any]) -> str:
    """The page of a report. The same report gives the same page."""
    assets = resources.files(__package__) / "assets"

    def read(name: str) -> str:
        return (assets / name).read_text(encoding="utf-8")

    script = "\n".join(read(name) for name in SCRIPTS)
    parts = {
        "title": html.escape(report["name"]),
        "style": read("style.css"),
        "script": f'"use strict";\n(() => {{\n{script}\n}})();',
        "data": packed(report),
    }
    page = read("page.html")
    for name, content in parts.items():
        page = page.replace(f"<!--{name}-->", content)
    return page


def packed(report: dict[str, Any]) -> str:
    """JSON, deflated, in base64: what the browser's DecompressionStream reads."""
    data = json.dumps(report, separators=(",", ":"), ensure_ascii=False).encode()
    return base64.b64encode(zlib.compress(data, 6)).decode()
