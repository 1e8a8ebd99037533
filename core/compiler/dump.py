"""Dumps: every stage of a compilation as files that one can read.

Asked for with the option ``dump_to``, the environment variable TRIPONT_DUMP_TO, or XLA's own flags
in XLA_FLAGS (``--xla_dump_to=DIR``, ``--xla_dump_hlo_pass_re=REGEX``). A compilation writes
``DIR/module_0001.<name>.<stage>``. A folder that cannot be written is a warning, never an error.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from . import printer
from .hlo import Module

_log = logging.getLogger("tripont.compiler")
_count = 0


class Dump:
    """The files of one compilation; does nothing when no folder is given."""

    def __init__(self, folder: str = "", pass_pattern: str = "") -> None:
        self.folder: Path | None = Path(folder) if folder else None
        self.pass_pattern = re.compile(pass_pattern) if pass_pattern else None
        self.prefix = ""
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._give_up(error)

    @property
    def enabled(self) -> bool:
        return self.folder is not None

    def begin(self, name: str) -> None:
        """Choose the files' common beginning: the number of the next compilation in the folder, and
        its name.
        """
        global _count
        if self.folder is None:
            return
        _count += 1
        try:
            numbers = [
                int(m[1]) for p in os.listdir(self.folder) if (m := re.match(r"module_(\d+)\.", p))
            ]
        except OSError as error:
            self._give_up(error)
            return
        number = max([_count, *[n + 1 for n in numbers]])
        _count = number
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:100]
        self.prefix = f"module_{number:04d}.{safe}"

    def write(self, stage: str, content: str | bytes) -> None:
        """Write one file; ``stage`` is the end of its name."""
        if self.folder is None:
            return
        if not self.prefix:
            self.begin("unknown")
        path = self.folder / f"{self.prefix}.{stage}"
        try:
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            self._give_up(error)

    def module(self, module: Module, stage: str) -> None:
        """HLO text of ``module``."""
        if self.folder is not None:
            from .pipeline import name_everything

            name_everything(module)
            self.write(f"{stage}.txt", printer.print_module(module))

    def wants_pass(self, name: str) -> bool:
        return (
            self.folder is not None
            and self.pass_pattern is not None
            and bool(self.pass_pattern.search(name))
        )

    def after_pass(self, module: Module, number: int, name: str) -> None:
        """HLO text after a pass, if its name was asked for."""
        if self.wants_pass(name):
            self.module(module, f"{number:02d}.after_{name}")

    def _give_up(self, error: OSError) -> None:
        _log.warning("cannot write dumps to %s: %s", self.folder, error)
        self.folder = None


def from_options(options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Dump:
    """The dump that options and environment ask for; options come first."""
    flags = xla_flags(environment.get("XLA_FLAGS", ""))
    folder = (
        options.get("dump_to") or environment.get("TRIPONT_DUMP_TO") or flags.get("xla_dump_to", "")
    )
    pattern = options.get("dump_hlo_pass_re") or flags.get("xla_dump_hlo_pass_re", "")
    try:
        return Dump(folder, pattern)
    except re.error as error:
        _log.warning("dump_hlo_pass_re %r is not a regular expression: %s", pattern, error)
        return Dump(folder)


def xla_flags(text: str) -> dict[str, str]:
    """``--name=value`` pairs; a flag without a value is ``"true"``."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    pairs = [w.lstrip("-").partition("=") for w in words if w.startswith("--")]
    return {name: value if equals else "true" for name, equals, value in pairs}
