"""What the page shows, as one dictionary: operations, graphs, texts, timeline, buffers, sources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from . import code_text, graphs
from .dump_folder import ModuleDump
from .files import Sources
from .hlo_text import TextComputation, read_hlo
from .measure import Timeline

# Lines of the user's program that are shown around one that matters.
SOURCE_CONTEXT: Final = 12
# Characters of all texts together: more makes a page too large (they pack about eight to one).
TEXT_BUDGET: Final = 24_000_000
# A program that was given as text without locations is its own source: see importer/.
PROGRAM_AS_SOURCE: Final = "<program>"

_TITLES: Final = {
    "received.mlir": "Program as received",
    "stablehlo.mlir": "StableHLO",
    "before_optimizations.txt": "HLO before optimisation",
    "after_optimizations.txt": "HLO after optimisation",
    "buffer_assignment.txt": "Buffer assignment",
    "ir-no-opt.ll": "LLVM IR as generated",
    "ir-with-opt.ll": "LLVM IR optimised",
    "s": "Assembly",
    "spvasm": "SPIR-V",
    "thunk_sequence.txt": "Thunk sequence",
}
_LANGUAGES: Final = {"mlir": "mlir", "txt": "hlo", "ll": "llvm", "s": "assembly", "spvasm": "spirv"}
# What is left out first where there is not enough room for everything.
_LEAST_WANTED: Final = ("pass", "received.mlir", "ir-no-opt.ll", "stablehlo.mlir")

Json = dict[str, Any]


def build(module: ModuleDump, timeline: Timeline, folders: Sequence[Path] = ()) -> Json:
    """The report of one compilation. ``folders``: whose source files may be shown, besides the working directory's."""
    description = module.description
    stages, left_out = _stages(module)
    texts = {stage["key"]: stage["text"] for stage in stages}
    hlo = read_hlo(texts.get("after_optimizations.txt", ""))
    operations = [
        o | {"sources": sorted(o["sources"], key=lambda s: _is_installed(s["file"]))}
        for o in description["operations"]
    ]
    numbers = {o["id"]: n for n, o in enumerate(operations)}
    ranges = _function_ranges(texts)
    flat = _flatten(description["thunks"])
    _add_lines(operations, hlo, ranges)
    _add_thunks(operations, flat)
    drawn = {
        c.name: graphs.draw_computation(
            c, numbers, fused=not c.entry and c.name not in _executed(operations)
        )
        for c in hlo.values()
        if c.entry or len(c.instructions) > 2
    }
    entry = next((c.name for c in hlo.values() if c.entry), "")
    notes = list(description.get("notes", []))
    if left_out:
        notes.append(f"Left out, too large for one page: {', '.join(left_out)}.")
    readable = Sources(folders)
    sources = _sources(operations, texts, readable)
    if readable.refused:
        first = min(readable.refused, key=_is_installed)
        count = len(readable.refused)
        notes.append(
            f"Not shown, outside of the working directory: {first}"
            + (f" and {count - 1} more source files" if count > 1 else "")
            + ". `tripont explain --sources FOLDER` shows those of a folder."
        )
    return {
        "name": module.name,
        "origin": module.origin,
        "tripont": description.get("tripont", ""),
        "target": description["target"],
        "triple": description["triple"],
        "cpu": description["cpu"],
        "cpu_features": description["cpu_features"],
        "costs": description["costs"],
        "notes": notes,
        "stages": stages,
        "operations": operations,
        "kernels": description["kernels"],
        "allocations": description["allocations"],
        "parameters": description["parameters"],
        "graphs": drawn,
        "entry": entry,
        "passes": description.get("passes", []),
        "compiled": description.get("stages", []),
        "thunks": [_thunk_line(t, parent, numbers) for t, parent in flat],
        "timeline": _timeline(timeline, flat),
        "sources": sources,
    }


def _stages(module: ModuleDump) -> tuple[list[Json], list[str]]:
    """The texts of all stages, and the titles of those that did not fit."""
    found: list[Json] = []
    for stage in module.stages():
        suffix = stage.rsplit(".", 1)[-1]
        if suffix not in _LANGUAGES:
            continue
        title, group = _TITLES.get(stage, ""), "stage"
        if ".optimization." in f".{stage}":
            number, _, after, *_ = [*stage.removesuffix(".txt").split("."), "", "", ""]
            if not number.isdecimal() or after.endswith("pipeline-start"):
                continue  # no name of ours, or the same as before_optimizations
            title, group = f"{int(number)} after {after.removeprefix('after_')}", "pass"
        if text := module.text(stage):
            found.append(
                {
                    "key": stage,
                    "title": title or stage,
                    "group": group,
                    "language": _LANGUAGES[suffix],
                    "text": text,
                }
            )
    left_out: list[str] = []
    for wanted in (*_LEAST_WANTED, ""):
        for entry in sorted(found, key=lambda s: -len(s["text"])):
            if sum(len(s["text"]) for s in found) <= TEXT_BUDGET:
                return found, left_out
            if wanted in ("", entry["group"], entry["key"]):
                left_out.append(str(entry["title"]))
                found.remove(entry)
    return found, left_out


def _function_ranges(texts: Mapping[str, str]) -> dict[str, code_text.Ranges]:
    readers = {
        "ir-no-opt.ll": code_text.llvm_functions,
        "ir-with-opt.ll": code_text.llvm_functions,
        "s": code_text.assembly_functions,
        "spvasm": code_text.spirv_functions,
    }
    return {stage: read(texts[stage]) for stage, read in readers.items() if stage in texts}


def _add_lines(
    operations: Sequence[Json],
    hlo: Mapping[str, TextComputation],
    ranges: Mapping[str, code_text.Ranges],
) -> None:
    """``lines`` of each operation: stage -> the parts of its text that are about the operation."""
    places = {f"{c.name}/{i.name}": i for c in hlo.values() for i in c.instructions}
    for operation in operations:
        lines: dict[str, list[list[int]]] = {}
        instruction = places.get(operation["id"])
        if instruction is not None:
            parts = [[instruction.line, instruction.line]]
            for name in instruction.called:
                if name in hlo and instruction.opcode not in ("while", "conditional", "call"):
                    parts.append([hlo[name].first, hlo[name].last])
            lines["after_optimizations.txt"] = parts
        for stage, functions in ranges.items():
            wanted = [k for kernel in operation["kernels"] for k in (kernel, f"{kernel}.body")]
            if found := [list(functions[k]) for k in wanted if k in functions]:
                lines[stage] = found
        operation["lines"] = lines


def _executed(operations: Sequence[Json]) -> set[str]:
    return {o["computation"] for o in operations}


def _flatten(thunks: Sequence[Json], parent: int = -1) -> list[tuple[Json, int]]:
    """All thunks in the order of their numbers, with the number of the loop around each."""
    flat: list[tuple[Json, int]] = []
    for thunk in thunks:
        flat.append((thunk, parent))
        for inner in (
            thunk.get("condition", ()),
            thunk.get("body", ()),
            *thunk.get("branches", ()),
        ):
            flat += _flatten(inner, thunk["number"])
    return flat


def _add_thunks(operations: Sequence[Json], flat: Sequence[tuple[Json, int]]) -> None:
    """Operations without a thunk of their own run in that of a kernel that calls theirs.

    Such a thunk stands for the first of its operations, unless it is an operation of its own (a loop).
    """
    by_kernel = {t["kernel"]: t["number"] for t, _ in flat if t.get("kernel")}
    for operation in operations:
        if operation["thunk"] < 0:
            for kernel in reversed(operation["kernels"]):
                if kernel in by_kernel:
                    operation["thunk"] = by_kernel[kernel]
                    operation["shared"] = True
                    thunk, _ = flat[operation["thunk"]]
                    thunk["operation"] = thunk["operation"] or operation["id"]
                    break


def _thunk_line(thunk: Json, parent: int, numbers: Mapping[str, int]) -> Json:
    return {
        "kind": thunk["kind"],
        "name": thunk.get("kernel") or thunk.get("library_call") or thunk["kind"],
        "operation": numbers.get(thunk["operation"] or "", -1),
        "parent": parent,
        "cost": thunk.get("cost_ns"),
        "work": thunk.get("work_count"),
    }


def _timeline(timeline: Timeline, flat: Sequence[tuple[Json, int]]) -> Json:
    """Measured events, or the compiler's estimates one after the other."""
    if not timeline.reason:
        return {
            "measured": True,
            "events": [list(event) for event in timeline.events],
            "total": timeline.total_ns,
            "runs": timeline.runs,
            "left_out": timeline.left_out,
            "device": timeline.device,
        }
    events, at = [], 0.0
    for thunk, _ in flat:
        if thunk.get("cost_ns") and not any(
            thunk.get(part) for part in ("condition", "body", "branches")
        ):
            events.append([thunk["number"], round(at), round(thunk["cost_ns"])])
            at += thunk["cost_ns"]
    return {"measured": False, "events": events, "total": round(at), "reason": timeline.reason}


def _sources(
    operations: Sequence[Json], texts: Mapping[str, str], readable: Sources
) -> dict[str, list[Json]]:
    """Excerpts of the user's files, as far as they are on this machine and may be shown: file -> runs of lines."""
    wanted: dict[str, set[int]] = {}
    for operation in operations:
        own = [operation["source"]] if operation["source"] else []
        for source in (*own, *operation["sources"]):
            if source["file"]:
                wanted.setdefault(source["file"], set()).add(source["line"])
    excerpts: dict[str, list[Json]] = {}
    for file, lines in wanted.items():
        text = texts.get("received.mlir", "") if file == PROGRAM_AS_SOURCE else readable.read(file)
        content = text.split("\n")
        shown = sorted(
            {
                n
                for line in lines
                for n in range(line - SOURCE_CONTEXT, line + SOURCE_CONTEXT + 1)
                if 1 <= n <= len(content) and line <= len(content)
            }
        )
        runs: list[Json] = []
        for n in shown if text else ():
            if not runs or runs[-1]["first"] + len(runs[-1]["lines"]) != n:
                runs.append({"first": n, "lines": []})
            runs[-1]["lines"].append(content[n - 1])
        excerpts[file] = runs
    return excerpts


def _is_installed(file: str) -> bool:
    """Whether a file belongs to a library: lines of the user's own program are shown before those."""
    return "site-packages" in file or "dist-packages" in file
