"""Each wing left out: where its modules cannot be imported the rest works, and programs that need it are told."""

from __future__ import annotations

import ast
import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tripont.core.compiler import wings

ROOT = Path(__file__).parents[3]
COMPILER = Path(wings.__file__).parent
BY_NAME = {wing.name: wing for wing in wings.WINGS}

# Refuses the modules in argv[1]. The rest must compile an addition, a product, a training step of JAX and a
# program of TensorFlow, and start the command line.
CHILD = """
import importlib.abc, pathlib, sys

refused = tuple(sys.argv[1].split(","))

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in refused or name.startswith(tuple(f"{module}." for module in refused)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Finder())

from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.ir.errors import CompileError

def compiled(program, format="mlir", **options):
    return compile_program(program if isinstance(program, bytes) else program.encode(), format, b"", options)

def error(*arguments, **options):
    try:
        compiled(*arguments, **options)
    except CompileError as e:
        return str(e)
    raise AssertionError("there is no error")

def function(types, result, body):
    given = ", ".join(f"%{n}: tensor<{t}>" for n, t in enumerate(types))
    return f"func.func @main({given}) -> {result} {{ {body} return %r : {result} }}"

assert compiled(function(["4xf32"], "tensor<4xf32>", "%r = stablehlo.add %0, %0 : tensor<4xf32>"))
PRODUCT = function(["128x128xf32"] * 2, "tensor<128x128xf32>",
    "%r = stablehlo.dot %0, %1 : (tensor<128x128xf32>, tensor<128x128xf32>) -> tensor<128x128xf32>")
assert compiled(PRODUCT)
programs = pathlib.Path(sys.argv[2], "tests/data/programs")
assert compiled((programs / "jax_training_step.mlir").read_bytes())
assert compiled((programs / "tensorflow_softmax.hlo").read_bytes(), "hlo")

from typer.testing import CliRunner
from tripont.cli.main import app

def run(*arguments):
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output

assert run("--version")[0] == 0
"""

# What a wing is needed for, if somebody asks the compiler or the command line for it: the error's text.
NEEDS = {
    "special": """
# What CHLO has is expanded; what tripont alone has is refused.
unary = function(["4xf32"], "tensor<4xf32>", "%r = chlo.lgamma %0 : tensor<4xf32> -> tensor<4xf32>")
assert compiled(unary)
text = error(function(["4xf32"] * 2, "tensor<4xf32>",
    '%r = stablehlo.custom_call @tripont.igamma(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>'))
""",
    "sizes": """
bounded = "tensor<?xf32, #stablehlo.bounds<4>>"
size = '%r = "stablehlo.set_dimension_size"(%0, %1) <{dimension = 0 : i64}>'
text = error(function(["4xf32", "i32"], bounded, f"{size} : (tensor<4xf32>, tensor<i32>) -> {bounded}"))
""",
    "sycl": "text = error(PRODUCT, target='sycl')",
    "explain": """
code, text = run("explain", "program.mlir", "--no-measure")
assert code == 1
""",
}


def run_without(modules: tuple[str, ...], code: str) -> str:
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TERM": "dumb", "COLUMNS": "400"}
    done = subprocess.run(
        [sys.executable, "-c", CHILD + code, ",".join(modules), str(ROOT)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", NEEDS)
def test_the_rest_works_without(name: str) -> None:
    text = run_without(BY_NAME[name].modules, NEEDS[name] + "\nprint(text)")
    assert f"the wing {name!r}" in text


def test_the_rest_works_without_all_of_them() -> None:
    every = tuple(module for wing in wings.WINGS for module in wing.modules)
    text = run_without(every, "".join(f"{code}\nprint(text)\n" for code in NEEDS.values()))
    assert [name for name in NEEDS if f"the wing {name!r}" not in text] == []


def test_wings_are_here() -> None:
    assert [wing.name for wing in wings.WINGS if not wings.is_here(wing)] == []
    assert wings.lacking("set_dimension_size") == ""


# A stand-in for a build with TRIPONT_WITHOUT="kernels;interop": the module without the names that these wings define.
BUILT_WITHOUT = """
import sys, types
import tripont.core._tripont as built
from tripont.core.compiler import wings

stand_in = types.ModuleType(built.__name__)
left_out = ("register_kernel", "exchange")
vars(stand_in).update((name, value) for name, value in vars(built).items() if name not in left_out)
sys.modules[built.__name__] = sys.modules["tripont.core"]._tripont = stand_in

print([wing.name for wing in wings.WINGS if not wings.is_here(wing)])
for name in ("kernels", "interop"):
    try:
        __import__(f"tripont.{name}")
    except ImportError as error:
        print(error)
"""


def test_a_wing_whose_native_code_is_not_built_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BUILT_WITHOUT], capture_output=True, text=True, check=True
    )
    missing, kernels, interop = done.stdout.splitlines()
    assert missing == "['kernels', 'interop']"
    assert "the wing 'kernels', which is for kernels that users write, is not built" in kernels
    assert (
        "the wing 'interop', which is for exchanging arrays between frameworks, is not built"
        in interop
    )


def test_a_wing_that_is_broken_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = wings.Wing("broken", "tests", modules=(), ops="tests.core.compiler.broken_wing")
    monkeypatch.setattr(wings, "WINGS", (broken,))
    assert list(wings.parts("ops")) == []
    monkeypatch.setitem(sys.modules, "tests.core.compiler.broken_wing", None)
    assert list(wings.parts("ops")) == []


@functools.cache
def imports_of(path: Path) -> set[str]:
    """The modules that a module imports, by full name; those of names it may import from packages too."""
    package = ["tripont", *path.relative_to(ROOT).with_suffix("").parts]
    if package[1] == "tripont":
        package = package[1:]
    if package[-1] != "__init__":
        package.append("")
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(a.name for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: -1 - node.level + 1]) if node.level else ""
            module = ".".join(p for p in (base, node.module or "") if p)
            found.add(module)
            found.update(f"{module}.{a.name}" for a in node.names)
    return found


def module_of(path: Path) -> str:
    parts = [*path.relative_to(ROOT).with_suffix("").parts]
    parts = parts if parts[0] == "tripont" else ["tripont", *parts]
    return ".".join(p for p in parts if p != "__init__")


def is_in(module: str, prefixes: tuple[str, ...]) -> bool:
    return any(module == p or module.startswith(f"{p}.") for p in prefixes)


@pytest.mark.parametrize("name", BY_NAME)
def test_only_the_list_names(name: str) -> None:
    """No module outside of the wings imports one of a wing."""
    modules = BY_NAME[name].modules
    others = tuple(module for wing in wings.WINGS for module in wing.modules)
    files = [
        f for folder in ("core", "tripont", "frontends") for f in (ROOT / folder).rglob("*.py")
    ]
    naming = [
        f"{module_of(file)} imports {imported}"
        for file in files
        if not is_in(module_of(file), others)
        for imported in sorted(imports_of(file))
        if is_in(imported, modules)
    ]
    assert naming == []
