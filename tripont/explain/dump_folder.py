"""Reading a dump folder: which modules are in it, and the files of one.

The version of a description must be that of this tripont: fields change their meaning between
versions, and a page that shows the wrong thing is worse than none.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tripont.core.compiler.observe.dump import DESCRIPTION, SCHEMA, SCHEMA_VERSION

from . import schema
from .files import read_named, read_regular


class ExplainError(Exception):
    """What was given cannot be explained; the message says why, and what to do."""


@dataclass
class ModuleDump:
    """One compilation. ``texts`` and ``artifact`` are read when they are asked for."""

    description: dict[str, Any]
    folder: Path | None = None  # only files right in it are read, whatever the description names
    texts: dict[str, str] = field(default_factory=dict)  # by stage, where there is no folder
    artifact: bytes = b""
    origin: str = ""  # what it was read from, for people
    ours: bool = False  # compiled by this process, so that running it runs no code of others

    @property
    def name(self) -> str:
        return str(self.description["name"])

    def stages(self) -> list[str]:
        """The stages that have a file, in the order in which they were written."""
        return list(self.description.get("files", {})) or list(self.texts)

    def text(self, stage: str) -> str:
        """The text of a stage, empty if there is none."""
        data = self._read(stage)
        return data.decode(errors="replace") if data else self.texts.get(stage, "")

    def artifact_bytes(self) -> bytes:
        return self.artifact or self._read("tripont")

    def _read(self, stage: str) -> bytes:
        name = str(self.description.get("files", {}).get(stage, ""))
        return read_named(self.folder, name) if self.folder is not None else b""


def read_folder(folder: Path) -> list[ModuleDump]:
    """Every finished compilation of a dump folder, in order of their numbers.

    Raises ExplainError for a folder without one, and for one of another version.
    """
    try:
        paths = sorted(folder.glob(f"module_*.{DESCRIPTION}"))
        others = any(folder.glob("module_*"))
    except OSError as error:
        raise ExplainError(f"cannot read {folder}: {error.strerror}") from error
    if not paths:
        what = "dumps of another program, or of an older tripont" if others else "no dumps"
        raise ExplainError(
            f"{folder} holds {what}: there is no module_*.{DESCRIPTION} in it; "
            "make dumps with TRIPONT_DUMP_TO=FOLDER, or with `tripont compile --dump FOLDER`"
        )
    modules = [read_description(path) for path in paths]
    finished = [m for m in modules if m.description.get("complete")]
    if not finished:
        raise ExplainError(f"{folder}: no compilation in it was finished; compile again")
    return finished


def read_description(path: Path) -> ModuleDump:
    """The compilation that a ``module.json`` describes. Raises ExplainError."""
    try:
        content = json.loads(read_regular(path))
    except OSError as error:
        raise ExplainError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise ExplainError(f"{path} is damaged: {error}") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ExplainError(f"{path} is not a description of a module (schema {SCHEMA!r})")
    if content.get("version") != SCHEMA_VERSION:
        raise ExplainError(
            f"{path} is of version {content.get('version')} of the dump format, "
            f"written by tripont {content.get('tripont', 'of an unknown version')}; "
            f"this tripont reads version {SCHEMA_VERSION}: make the dump again with it"
        )
    try:
        wrong = schema.mistake(content) if content.get("complete") else ""
    except RecursionError:
        wrong = "its loops and branches are nested too deep"
    if wrong:
        raise ExplainError(f"{path} is damaged: {wrong}")
    return ModuleDump(content, path.parent, origin=str(path.parent))


def choose(modules: list[ModuleDump], wanted: str) -> ModuleDump:
    """The module of that number or name; without one, that with the most work in it.

    Raises ExplainError with the list of modules if the folder does not hold such a module.
    """
    if not wanted:
        return max(modules, key=lambda m: float(m.description["costs"]["nanoseconds"]))
    for module in modules:
        number = numbered(module)
        if wanted in (module.name, number) or (wanted.isdigit() and wanted.zfill(4) == number):
            return module
    known = ", ".join(f"{numbered(m)} {m.name}" for m in modules)
    raise ExplainError(f"no module {wanted!r} in the dump; there are {known}")


def numbered(module: ModuleDump) -> str:
    """``"0001"`` of ``module_0001.jit_f``."""
    name = next(iter(module.description.get("files", {}).values()), "")
    return name.removeprefix("module_").split(".")[0]
