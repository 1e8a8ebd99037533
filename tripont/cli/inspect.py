"""``tripont inspect``: what an executable artifact holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from tripont.core.compiler.formats import artifact

from .program_file import read
from .terminal import fail, make_console


def size(count: float) -> str:
    """Bytes in the unit that keeps the number short."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def duration(nanoseconds: float) -> str:
    for factor, unit in ((1, "ns"), (1e3, "us"), (1e6, "ms")):
        if nanoseconds < 1000 * factor:
            return f"{nanoseconds / factor:.3g} {unit}"
    return f"{nanoseconds / 1e9:.3g} s"


def describe_slice(part: artifact.Slice, executable: artifact.Executable) -> str:
    allocation = executable.allocations[part.allocation]
    name = artifact.ALLOCATION_KINDS[allocation.kind]
    if allocation.kind in (artifact.ALLOCATION_PARAMETER, artifact.ALLOCATION_RESULT):
        name += str(allocation.index)
    return f"{name}[{part.offset}:{part.offset + part.size}]"


def describe_results(executable: artifact.Executable) -> Iterator[str]:
    """``0: f32[3,4]``, or ``0: f32[<=3,4]`` where 3 is the bound of a size that depends on values."""
    bounds = {(result, dimension) for result, dimension, _ in executable.dynamic_results}
    count = executable.visible_results
    for n, value in enumerate(executable.results[:count] if count >= 0 else executable.results):
        shape = value.shape
        dims = ",".join(f"{'<=' * ((n, d) in bounds)}{size}" for d, size in enumerate(shape.dims))
        yield f"{n}: {shape.dtype}[{dims}]"


def thunk_rows(
    thunks: Sequence[artifact.Thunk], executable: artifact.Executable, depth: int = 0
) -> Iterator[tuple[str, str, str, str]]:
    """Kind (indented by nesting), what it computes, its memory, its estimated cost on one core."""

    def name(debug: int) -> str:
        if 0 <= debug < len(executable.debug):
            info = executable.debug[debug]
            return info.name + (f"  {info.op_name}" if info.op_name else "")
        return ""

    indent = "  " * depth
    for thunk in thunks:
        match thunk:
            case artifact.Kernel():
                slices = " ".join(describe_slice(a, executable) for a in thunk.arguments)
                yield f"{indent}kernel", name(thunk.debug), slices, duration(thunk.cost_ns)
            case artifact.LibraryCall():
                slices = " ".join(
                    describe_slice(operand.slice, executable)
                    for operand in (*thunk.operands, *thunk.results)
                )
                yield f"{indent}{thunk.name}", name(thunk.debug), slices, duration(thunk.cost_ns)
            case artifact.Copy():
                pair = [describe_slice(s, executable) for s in (thunk.source, thunk.destination)]
                yield f"{indent}copy", name(thunk.debug), " -> ".join(pair), ""
            case artifact.View():
                pair = [describe_slice(s, executable) for s in (thunk.source, thunk.view)]
                indices = "".join(
                    f" + {describe_slice(s.index, executable)} * {s.stride}" for s in thunk.strides
                )
                yield f"{indent}view", name(thunk.debug), f"{pair[0]}{indices} -> {pair[1]}", ""
            case artifact.While():
                trips = f" ({thunk.trip_count} times)" if thunk.trip_count >= 0 else ""
                yield (
                    f"{indent}while{trips}",
                    name(thunk.debug),
                    describe_slice(thunk.predicate, executable),
                    "",
                )
                for label, body in (("condition", thunk.condition), ("body", thunk.body)):
                    yield f"{indent}  {label}:", "", "", ""
                    yield from thunk_rows(body, executable, depth + 2)
            case artifact.Conditional():
                yield (
                    f"{indent}conditional",
                    name(thunk.debug),
                    describe_slice(thunk.selector, executable),
                    "",
                )
                for index, branch in enumerate(thunk.branches):
                    yield f"{indent}  branch {index}:", "", "", ""
                    yield from thunk_rows(branch, executable, depth + 2)


def program_text(program: bytes) -> str:
    """The optimised HLO as text; needs jaxlib."""
    from tripont.core.compiler.importer import bindings

    return bindings.hlo_text(program)


def run(path: Path, thunks: bool, memory: bool, hlo: bool) -> int:
    console = make_console()
    try:
        executable = artifact.deserialize(read(path))
    except artifact.ArtifactError as error:
        fail(f"{path}: {error}")

    summary = Table(
        show_header=False,
        box=None,
        pad_edge=False,
        title=f"{executable.name}",
        title_justify="left",
    )
    needs = " ".join(executable.cpu_features)
    temporary = sum(a.size for a in executable.allocations if a.kind == artifact.ALLOCATION_TEMP)
    rows = {
        "target": f"{executable.target}, {executable.triple}, compiled for {executable.cpu}",
        "needs": needs or "no particular CPU features",
        "compiler": f"{executable.compiler_version}, fingerprint {executable.fingerprint}",
        "parameters": ", ".join(f"{i}: {v.shape}" for i, v in enumerate(executable.parameters))
        or "none",
        "results": ", ".join(describe_results(executable)) or "none",
        "donatable": ", ".join(map(str, executable.donatable_parameters)) or "none",
        "devices": f"{executable.num_replicas} replicas x {executable.num_partitions} partitions",
        "size": f"code {size(len(executable.code))}, constants {size(len(executable.constants))}, "
        f"temporary memory {size(temporary)}",
        "costs": f"{executable.costs.flops:.3g} flops, {size(executable.costs.bytes_accessed)} accessed, "
        f"{duration(executable.costs.optimal_nanoseconds)} on one core",
    }
    for name, value in rows.items():
        summary.add_row(f"[bold]{name}[/]", escape(value))
    console.print(summary)

    if memory:
        table = Table(title="buffer assignment", title_justify="left")
        for column in ("allocation", "kind", "size", "shares with"):
            table.add_column(column)
        for index, allocation in enumerate(executable.allocations):
            kind = f"{artifact.ALLOCATION_KINDS[allocation.kind]} {allocation.index}"
            shared = (
                f"parameter {allocation.aliased_parameter}"
                if allocation.aliased_parameter >= 0
                else ""
            )
            table.add_row(str(index), kind, size(allocation.size), shared)
        console.print(table)
    if thunks:
        table = Table(title="thunk sequence", title_justify="left")
        for column in ("thunk", "computes", "memory", "cost"):
            table.add_column(column, overflow="fold")
        for row in thunk_rows(executable.thunks, executable):
            table.add_row(*map(escape, row))
        console.print(table)
    if hlo:
        if not executable.program:
            fail("this artifact was written without its HLO")
        console.print(
            program_text(executable.program), highlight=False, markup=False, soft_wrap=True
        )
    return 0
