"""The picture of the house: no circle of modules, and no arrow up between its rooms, nor between the compiler's."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]

# The rooms of the compiler from the ground up: a room imports those in the lines before its own.
STOREYS = (
    ("wings",),
    ("ir",),
    ("formats", "reference"),
    ("llvm_ir",),
    ("targets",),
    ("fusion",),
    ("codegen",),
    ("memory",),
    ("passes",),
    ("importer",),
    ("ops",),
    ("thunks",),
    ("observe", "xla"),
    ("stages",),
    ("laws",),
    ("sizes", "special"),
    ("pipeline",),
    ("compile",),
    ("worker",),
)

# The same for the whole house. The C++ of core/ is below all of them.
HOUSE = (
    ("tripont.version",),
    ("tripont",),
    ("tripont.fingerprint", "tripont.helper_process", "tripont.trust"),
    ("core", "core.tracebacks", "core.schema"),
    ("core.compiler",),
    ("frontends", "frontends.jax", "frontends.tensorflow", "frontends.torch_xla"),
    ("tripont.tensorflow", "tripont.torch_xla"),
    ("tripont.interop", "tripont.kernels"),
    ("tripont.cli",),
    ("tripont.__main__",),
    ("tripont.explain",),
    ("benchmarks",),
)

# Values that know their parts, and whose type the modules of the parts name. Names of other types make no circle.
HUBS = frozenset(
    (
        "core.compiler.ir.hlo",  # an instruction; the registration of its op, and errors that name one
        "core.compiler.codegen.generator",  # it reads, writes and converts elements
        "core.compiler.passes.library.attention",  # a pattern that was found, and what is made of it
    )
)

LOADED, TYPES, LATER = "loaded", "types", "later"


@functools.cache
def modules() -> dict[str, Path]:
    """All modules by the names of their files: core.compiler.ir.hlo."""
    found = {}
    for folder in ("core", "tripont", "frontends", "benchmarks"):
        for file in (ROOT / folder).rglob("*.py"):
            parts = file.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


@functools.cache
def imports(name: str) -> tuple[tuple[str, str], ...]:
    """The modules that a module imports, each with when: LOADED with it, for TYPES alone, or LATER in a function."""
    file = modules()[name]
    package = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    found = []

    def known(module: str) -> str:
        """The longest name of ours that ``module`` starts with; tripont.core is the folder core."""
        while module:
            for full in (module, module.removeprefix("tripont.")):
                if full in modules():
                    return full
            module = module.rpartition(".")[0]
        return ""

    def visit(node: ast.AST, when: str) -> None:
        if isinstance(node, ast.Import):
            found.extend((known(a.name), when) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            found.extend((known(f"{module}.{a.name}"), when) for a in node.names)
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for child in node.body:
                visit(child, TYPES)
        else:
            inside = LATER if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else when
            for child in ast.iter_child_nodes(node):
                visit(child, inside)

    visit(ast.parse(file.read_text()), LOADED)
    return tuple((module, when) for module, when in found if module and module != name)


def circles(*whens: str) -> Iterator[set[str]]:
    """The modules that reach each other by such imports, but for names of hubs' types (Tarjan's algorithm)."""
    graph = {
        n: {m for m, when in imports(n) if when in whens and not (when == TYPES and m in HUBS)}
        for n in modules()
    }
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []

    def visit(node: str) -> Iterator[set[str]]:
        index[node] = lowest[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                yield from visit(other)
                lowest[node] = min(lowest[node], lowest[other])
            elif other in stack:
                lowest[node] = min(lowest[node], index[other])
        if lowest[node] == index[node]:
            at = stack.index(node)
            circle = set(stack[at:])
            del stack[at:]
            if len(circle) > 1:
                yield circle

    for node in graph:
        if node not in index:
            yield from visit(node)


def room_of(module: str) -> str:
    parts = module.split(".")
    if parts[:2] != ["core", "compiler"] or len(parts) < 3:
        return ""
    # LLVM IR as data, and how much of it LLVM compiles with care: a room of their own, below the targets.
    if parts[2] == "codegen" and parts[3:4] in (["llvm_ir"], ["effort"]):
        return "llvm_ir"
    return parts[2]


def test_no_circle_when_modules_are_loaded() -> None:
    assert list(circles(LOADED)) == []


def test_no_circle_with_the_names_of_types() -> None:
    assert list(circles(LOADED, TYPES)) == []


def house_room_of(module: str) -> str:
    parts = module.split(".")
    return parts[0] if parts[0] == "benchmarks" else ".".join(parts[:2])


def arrows_up(
    storeys: tuple[tuple[str, ...], ...], storey: int, room: Callable[[str], str]
) -> list[str]:
    """Imports by the rooms of a storey from those on the same one or above it, in functions too."""
    rank = {name: n for n, names in enumerate(storeys) for name in names}
    return [
        f"{module} -> {imported}"
        for module in modules()
        if room(module) in storeys[storey]
        for imported, when in imports(module)
        if when != TYPES
        and room(imported)
        and room(imported) != room(module)
        and rank[room(imported)] >= storey
    ]


@pytest.mark.parametrize(("storeys", "room"), [(STOREYS, room_of), (HOUSE, house_room_of)])
def test_every_room_has_its_storey(
    storeys: tuple[tuple[str, ...], ...], room: Callable[[str], str]
) -> None:
    rooms = {room(module) for module in modules()} - {""}
    assert rooms == {name for names in storeys for name in names}


def test_the_full_names_of_modules_are_understood() -> None:
    """What the package calls tripont.core is the folder core."""
    assert ("core.schema.element_types", LOADED) in imports("core.compiler.ir.dtypes")
    assert ("core.compiler.wings", LOADED) in imports("tripont.cli.main")


@pytest.mark.parametrize("storey", range(len(STOREYS)), ids=lambda n: "-".join(STOREYS[n]))
def test_no_arrow_up(storey: int) -> None:
    assert arrows_up(STOREYS, storey, room_of) == []


@pytest.mark.parametrize("storey", range(len(HOUSE)), ids=lambda n: "-".join(HOUSE[n]))
def test_no_arrow_up_in_the_house(storey: int) -> None:
    assert arrows_up(HOUSE, storey, house_room_of) == []
