"""An artifact alone as input: what a dump would say, as far as an artifact holds it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tripont.core.compiler import targets
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.observe.description import describe_executable
from tripont.core.compiler.observe.dump import SCHEMA, SCHEMA_VERSION

from .dump_folder import ExplainError, ModuleDump
from .hlo_text import TextInstruction, read_hlo

Json = dict[str, Any]
_NOTE = (
    "Made from an artifact alone, which holds optimised HLO, thunks and code, but no LLVM IR and no assembly. "
    "A dump folder shows all stages: tripont compile --dump FOLDER."
)


def read_artifact(data: bytes, origin: str) -> ModuleDump:
    """The artifact as a compilation to explain. Raises ExplainError for bytes that are not one."""
    try:
        executable = artifact.deserialize(data)
    except artifact.ArtifactError as error:
        raise ExplainError(f"{origin}: {error}") from error
    hlo = _hlo_text(executable.program)
    texts = {"after_optimizations.txt": hlo} if hlo else {}
    texts["thunk_sequence.txt"] = _thunk_text(executable)
    texts |= targets.texts_of(executable.target, executable.code)
    operations, by_debug = _operations(executable, hlo)
    description: Json = describe_executable(executable) | {
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "parameters": [
            {"name": f"parameter {n}", "shape": str(v.shape), "source": None}
            for n, v in enumerate(executable.parameters)
        ],
        "operations": operations,
        "kernels": [],
        "thunks": _thunks(executable.thunks, by_debug, [0]),
        "notes": [_NOTE],
    }
    return ModuleDump(description, texts=texts, artifact=data, origin=origin)


def _hlo_text(program: bytes) -> str:
    """The optimised HLO as text; empty if the artifact was written without it or jaxlib is not there."""
    if not program:
        return ""
    try:
        from tripont.cli.inspect import program_text
    except ImportError:
        return ""
    return program_text(program)


def _all(thunks: Sequence[artifact.Thunk]) -> list[artifact.Thunk]:
    found: list[artifact.Thunk] = []
    for thunk in thunks:
        found.append(thunk)
        match thunk:
            case artifact.While():
                found += [*_all(thunk.condition), *_all(thunk.body)]
            case artifact.Conditional():
                for branch in thunk.branches:
                    found += _all(branch)
    return found


def _place(
    candidates: list[tuple[str, TextInstruction]], library: str, op_name: str
) -> tuple[str, TextInstruction | None]:
    """The instruction that a thunk runs, of those of its name in different computations."""

    def unlike(candidate: tuple[str, TextInstruction]) -> tuple[bool, bool]:
        _, instruction = candidate
        return instruction.library != library, instruction.op_name != op_name

    if not candidates:
        return "", None
    return min(candidates, key=unlike)


def _operations(executable: artifact.Executable, hlo: str) -> tuple[list[Json], dict[int, str]]:
    """One operation a thunk that has debug information, and the operation of each such index."""
    places: dict[str, list[tuple[str, TextInstruction]]] = {}
    for computation in read_hlo(hlo).values():
        for instruction in computation.instructions:
            places.setdefault(instruction.name, []).append((computation.name, instruction))
    operations: list[Json] = []
    by_debug: dict[int, str] = {}
    for number, thunk in enumerate(_all(executable.thunks)):
        if thunk.debug < 0:
            continue
        info = executable.debug[thunk.debug]
        library = thunk.name if isinstance(thunk, artifact.LibraryCall) else ""
        home, found = _place(places.get(info.name, []), library, info.op_name)
        if isinstance(thunk, artifact.Copy) and (found is None or found.opcode != "copy"):
            continue  # a move before or after an operation is none of its own
        if found is not None:
            places[info.name].remove((home, found))
        by_debug[thunk.debug] = identity = f"{home or number}/{info.name}"
        count = len(found.operands) if found else 0
        arrays = [
            {"name": "", "shape": "", "allocation": s.allocation, "offset": s.offset}
            | {"size": s.size, "alive": None}
            for s in artifact.slices(thunk)
        ]
        if found:
            for array, name in zip(arrays, [*found.operands, *[info.name] * 99], strict=False):
                array["name"] = name
        source = {"op_name": info.op_name, "file": info.source_file, "line": info.source_line}
        operations.append(
            {
                "id": identity,
                "name": info.name,
                "computation": home,
                "opcode": found.opcode if found else "library-call" if library else "fusion",
                "kind": found.kind if found else "",
                "library_call": library,
                "fused_computation": found.called[0] if found and found.called else "",
                "shape": found.shape if found else info.text.split(" ")[0],
                "kernels": [],
                "thunk": number,
                "source": source,
                "sources": [source | {"instructions": 1, "op_names": [info.op_name]}]
                if info.source_file
                else [],
                "instructions": 1,
                "operands": arrays[:count],
                "results": arrays[count:],
                "flops": info.flops or None,
                "transcendentals": None,
                "bytes_read": sum(a["size"] for a in arrays[:count]),
                "bytes_written": sum(a["size"] for a in arrays[count:]),
            }
        )
    return operations, by_debug


def _thunks(
    thunks: Sequence[artifact.Thunk], by_debug: dict[int, str], count: list[int]
) -> list[Json]:
    """As in a description, numbered depth first."""
    described = []
    for thunk in thunks:
        entry: Json = {"number": count[0], "operation": by_debug.get(thunk.debug)}
        count[0] += 1
        described.append(entry)
        match thunk:
            case artifact.Kernel():
                entry |= {"kind": "kernel", "cost_ns": thunk.cost_ns}
                entry["work_count"] = thunk.work_count
            case artifact.Copy():
                entry["kind"] = "copy"
            case artifact.LibraryCall():
                entry |= {"kind": "library-call", "library_call": thunk.name}
                entry["cost_ns"] = thunk.cost_ns
            case artifact.View():
                entry["kind"] = "view"
            case artifact.While():
                entry |= {"kind": "while", "condition": _thunks(thunk.condition, by_debug, count)}
                entry["body"] = _thunks(thunk.body, by_debug, count)
            case artifact.Conditional():
                entry["kind"] = "conditional"
                entry["branches"] = [_thunks(b, by_debug, count) for b in thunk.branches]
    return described


def _thunk_text(executable: artifact.Executable) -> str:
    from tripont.cli.inspect import thunk_rows

    rows = list(thunk_rows(executable.thunks, executable))
    return "\n".join("  ".join(part for part in row if part) for row in rows) + "\n"
