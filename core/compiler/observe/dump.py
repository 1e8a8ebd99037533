"""Dumps: every stage of a compilation as files that one can read. docs/dumps.md lists them.

Asked for with the option ``dump_to``, the environment variable TRIPONT_DUMP_TO, or XLA's own flags
in XLA_FLAGS (``--xla_dump_to=DIR``, ``--xla_dump_hlo_pass_re=REGEX``,
``--xla_dump_hlo_module_re=REGEX``). A compilation writes ``DIR/module_0001.<name>.<stage>``. A
folder that cannot be written is a warning, never an error.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ..ir import printer
from ..ir.hlo import Module

_log = logging.getLogger("tripont.compiler")

# What the file of a description calls itself, and the version of its fields. A reader takes its own
# version and no other.
SCHEMA: Final = "tripont.module"
SCHEMA_VERSION: Final = 1
DESCRIPTION: Final = "module.json"
ARTIFACT: Final = "tripont"  # the stage that is the executable artifact
OPTIMISED_PROTO: Final = "after_optimizations.hlo.pb"  # the HloModuleProto in it

_NUMBERED: Final = re.compile(r"module_(\d+)\.")
_LONGEST_NAME: Final = 100
_warned: set[Path | None] = set()  # folders that could not be written


class Dump:
    """The files of one compilation; does nothing when no folder is given.

    ``pass_pattern``: HLO is written around the passes whose names it matches. ``module_pattern``:
    programs whose names it does not match are not dumped. Raises re.error for a bad pattern.
    """

    def __init__(self, folder: str = "", pass_pattern: str = "", module_pattern: str = "") -> None:
        self.folder: Path | None = Path(folder) if folder else None
        self.pass_pattern = re.compile(pass_pattern) if pass_pattern else None
        self.module_pattern = re.compile(module_pattern) if module_pattern else None
        self.prefix = ""
        self.files: dict[str, str] = {}  # stage -> file name, in the order of writing
        self.passes: list[dict[str, Any]] = []
        self.stages: list[dict[str, Any]] = []
        self._described: Mapping[str, Any] | None = None
        self._between: Module | None = None  # what between_passes wrote last
        if self.folder is None:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._give_up(error)

    @property
    def enabled(self) -> bool:
        return self.folder is not None

    def begin(self, name: str, artifact: bytes | None = None) -> None:
        """Choose the files' common beginning: the next free number in the folder, and the program's
        name. The description is there from now on, so that the number is taken; of a program that
        was compiled before, its ``artifact``.
        """
        if self.module_pattern is not None and not self.module_pattern.search(name):
            self.folder = None
        if self.folder is None:
            return
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:_LONGEST_NAME] or "unknown"
        try:
            with _locked(self.folder):
                taken = [int(m[1]) for p in os.listdir(self.folder) if (m := _NUMBERED.match(p))]
                self.prefix = f"module_{max(taken, default=0) + 1:04d}.{safe}"
                if artifact is None:
                    self.describe({"name": name, "complete": False})
                else:
                    self.write(ARTIFACT, artifact)
        except OSError as error:
            self._give_up(error)

    def write(self, stage: str, content: str | bytes) -> None:
        """Write one file; ``stage`` is the end of its name."""
        if self.folder is None:
            return
        if not self.prefix:
            self.begin("unknown")
            if not self.enabled:
                return
        name = f"{self.prefix}.{stage}"
        try:
            data = content if isinstance(content, bytes) else content.encode()
            (self.folder / name).write_bytes(data)
        except OSError as error:
            self._give_up(error)
        else:
            self.files[stage] = name

    def describe(self, fields: Mapping[str, Any]) -> None:
        """Write the description (module.json): ``fields``, what was written, and the stages and passes."""
        self._described = fields
        head = {"schema": SCHEMA, "version": SCHEMA_VERSION}
        files = {stage: name for stage, name in self.files.items() if stage != DESCRIPTION}
        ran = {"files": files, "stages": self.stages, "passes": self.passes}
        self.write(DESCRIPTION, _json_text(head | dict(fields) | ran))

    def stage(self, name: str, milliseconds: float) -> None:
        """Note how long a stage of the compilation took."""
        if self.folder is not None:
            self.stages.append({"name": name, "milliseconds": round(milliseconds, 3)})

    def finish(self) -> None:
        """Write the description once more, with what has been noted and written since."""
        if self.folder is not None and self._described is not None:
            self.describe(self._described)

    def module(self, module: Module, stage: str) -> None:
        """HLO text of ``module``."""
        if self.folder is not None:
            module.assign_names()
            self.write(f"{stage}.txt", printer.print_module(module))

    def between_passes(
        self,
        module: Module,
        number: int,
        after: str,
        before: str,
        *,
        changed: bool,
        milliseconds: float = 0.0,
    ) -> None:
        """HLO text between two passes, as XLA names and chooses it: if the name of the one before
        matches and it changed the module, or that of the next matches.

        ``number``: of the pass before, from 1; 0 at the start. ``milliseconds``: what it took.
        """
        if self.folder is None:
            return
        entry = {"number": number, "name": after, "changed": changed}
        if number:
            entry["instructions"] = sum(len(c.instructions) for c in module.computations())
            entry["milliseconds"] = round(milliseconds, 3)
            self.passes.append(entry)
        pattern = self.pass_pattern
        if pattern is None:
            return
        wanted = (changed and pattern.search(after)) or pattern.search(before)
        if wanted and module is not self._between:
            self._between = module
            stage = f"{number:04d}.optimization.after_{after}.before_{before}"
            self.module(module, stage)
            entry["file"] = self.files.get(f"{stage}.txt", "")

    def _give_up(self, error: OSError) -> None:
        """A warning, once a folder and process: programs come by the dozen."""
        if self.folder not in _warned:
            _warned.add(self.folder)
            _log.warning(
                "cannot write dumps to %s: %s; the compilation goes on without them",
                self.folder,
                error,
            )
        self.folder = None


def _json_text(fields: Mapping[str, Any]) -> str:
    """JSON in which every field, and every entry of a list of objects, has a line of its own."""
    lines = []
    for name, value in fields.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            entries = ",\n".join(f"  {json.dumps(entry)}" for entry in value)
            lines.append(f" {json.dumps(name)}: [\n{entries}\n ]")
        else:
            lines.append(f" {json.dumps(name)}: {json.dumps(value)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Only one process at a time, among those that ask."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def from_options(options: Mapping[str, str], environment: Mapping[str, str] = os.environ) -> Dump:
    """The dump that options and environment ask for; options come first."""
    flags = xla_flags(environment.get("XLA_FLAGS", ""))
    folder = (
        options.get("dump_to") or environment.get("TRIPONT_DUMP_TO") or flags.get("xla_dump_to", "")
    )
    patterns = {}
    for name in ("dump_hlo_pass_re", "dump_hlo_module_re"):
        text = options.get(name) or flags.get(f"xla_{name}", "")
        try:
            re.compile(text)
        except re.error as error:
            _log.warning("%s %r is not a regular expression: %s", name, text, error)
            text = ""
        patterns[name] = text
    return Dump(folder, patterns["dump_hlo_pass_re"], patterns["dump_hlo_module_re"])


def xla_flags(text: str) -> dict[str, str]:
    """``--name=value`` pairs; a flag without a value is ``"true"``."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = text.split()
    pairs = [w.lstrip("-").partition("=") for w in words if w.startswith("--")]
    return {name: value if equals else "true" for name, equals, value in pairs}
