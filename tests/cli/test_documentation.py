"""docs/environment.md lists every setting, with the text that the runtime itself gives."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "environment.md"


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the wheel's tests")
def test_environment_page_is_complete() -> None:
    from tripont.core import _tripont

    page = PAGE.read_text()
    for option, variable, meaning in _tripont.options():
        assert f"| `{variable}` | `{option}` | {meaning} |" in page


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the wheel's tests")
def test_every_variable_that_is_read_is_listed() -> None:
    internal = {"TRIPONT_IN_WORKER"}
    page = PAGE.read_text()
    pattern = re.compile(
        r"""(?:getenv\(|environ(?:\.get)?[\[(]|environment(?:\.get)?[\[(])["'](TRIPONT_\w+)["']"""
    )
    for folder in ("core", "pjrt", "frontends", "tripont", "cmake"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".cc", ".h"} and path.is_file():
                for variable in pattern.findall(path.read_text()):
                    assert variable in internal or f"`{variable}`" in page, (
                        f"{variable}, read in {path}"
                    )


@pytest.mark.skipif(not PAGE.exists(), reason="the documentation is not part of the wheel's tests")
def test_the_lines_of_the_readme_run(subprocess_environment: dict[str, str]) -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    result = subprocess.run(
        [sys.executable, "-c", code],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    assert "XpuDevice" in result.stdout
