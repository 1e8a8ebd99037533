"""The differences that are known, with their reasons: ``known_differences.toml``."""

from __future__ import annotations

import fnmatch
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).with_name("known_differences.toml")


@dataclass(frozen=True)
class Known:
    """Patterns of calls, with ``*`` and ``?``, by their reasons."""

    reasons: Mapping[str, str]  # by pattern
    flaky: frozenset[str] = field(
        default_factory=frozenset
    )  # patterns of what need not differ in every run

    def reason(self, call: str) -> str | None:
        """Why the call differs, if that is known."""
        return next(
            (why for of, why in self.reasons.items() if fnmatch.fnmatchcase(call, of)), None
        )

    def gone(self, differed: Iterable[str], tried: Iterable[str]) -> list[str]:
        """Patterns that fit calls which were tried, none of which differed: they have to leave the list."""
        differed, tried = list(differed), list(tried)
        return [
            of
            for of in self.reasons
            if of not in self.flaky
            and fnmatch.filter(tried, of)
            and not fnmatch.filter(differed, of)
        ]


def read(path: Path = FILE) -> Known:
    """The list, in which a table has a ``reason`` and the patterns of ``calls``."""
    tables = tomllib.loads(path.read_text()).get("difference", [])
    reasons = {escaped(of): table["reason"] for table in tables for of in table["calls"]}
    flaky = {escaped(of) for table in tables if table.get("not_always") for of in table["calls"]}
    return Known(reasons, frozenset(flaky))


def escaped(pattern: str) -> str:
    """The pattern in which brackets, of which names have many, stand for themselves."""
    return pattern.replace("[", "[[]")
