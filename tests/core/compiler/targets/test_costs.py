"""One value says what work costs on a target, and every choice goes by it."""

from __future__ import annotations

import ast
import importlib.util
import re
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest
from tripont.core.compiler import codegen, pipeline
from tripont.core.compiler.codegen.kernels import emit as kernels
from tripont.core.compiler.fusion.fuse import fuse
from tripont.core.compiler.ir.hlo import DotDimensionNumbers, Module
from tripont.core.compiler.ir.registry import Price
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library import match_library
from tripont.core.compiler.passes.split_reductions import split_reductions
from tripont.core.compiler.targets.costs import JUDGEMENT, Costs
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.host.costs import costs_of
from tripont.core.compiler.targets.sycl import for_device
from tripont.core.compiler.targets.target import Target

from tests.core.compiler.builders import module, op, opcodes, parameter, priced, reduce

COMPILER = Path(codegen.__file__).parents[1]
ROOT = Path(__file__).parents[4]
TARGETS = {"host": for_cpu(), "v2": for_cpu("x86-64-v2"), "sycl": for_device("gpu")}
GROUPS = [f.name for f in fields(Costs) if f.name not in ("ops", "measured")]


# ------------------------------------------------------------------------------------------- the numbers
@pytest.mark.parametrize("group", GROUPS)
def test_each_number_has_a_unit_and_a_meaning(group: str) -> None:
    made = getattr(for_cpu().costs, group)
    assert is_dataclass(made)
    hints = typing.get_type_hints(type(made), include_extras=True)
    for field in fields(made):
        _, unit, meaning = typing.get_args(hints[field.name])
        assert unit, field.name
        assert meaning, field.name


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_each_number_says_how_it_was_measured(target: Target) -> None:
    measured = target.costs.measured
    for name, command in measured.items():
        group, _, number = name.partition(".")
        assert group in GROUPS
        assert not number or hasattr(getattr(target.costs, group), number), name
        if command != JUDGEMENT:
            benchmark = command.split()[2]
            assert command.startswith("python -m benchmarks")
            assert importlib.util.find_spec(benchmark) is not None, command
    assert set(GROUPS) <= set(measured)


def test_costs_follow_the_instructions_of_the_cpu() -> None:
    assert for_cpu("x86-64-v4").costs.products.library_types == frozenset()
    assert for_cpu("znver4").costs.products.library_types == {"bf16"}
    with_tiles = costs_of("any", frozenset(("avx512f", "amx-bf16", "amx-int8")))
    assert with_tiles.products.library_types == {"bf16"}
    assert not with_tiles.convolutions.generates_bf16
    assert with_tiles.convolutions.tiles_bf16
    assert not for_cpu("znver4").costs.convolutions.tiles_bf16
    assert for_cpu("x86-64-v3").costs.convolutions.generates_gradients
    assert not for_cpu("x86-64-v4").costs.convolutions.generates_gradients


# ---------------------------------------------------------------------- a target with other costs chooses otherwise
def product(m: int, k: int, n: int) -> Module:
    lhs, rhs = parameter(0, m, k), parameter(1, k, n)
    numbers = DotDimensionNumbers((1,), (0,))
    return module([lhs, rhs], op("dot", lhs, rhs, dims=(m, n), dimension_numbers=numbers))


def test_which_products_are_a_librarys() -> None:
    eager = priced("x86-64-v2", products={"library": 1, "library_each": 1, "most_f32": 0})
    small = product(32, 32, 32)
    assert "library-call" not in opcodes(match_library(small, for_cpu("x86-64-v2")).entry)
    assert "library-call" in opcodes(match_library(small, eager).entry)


def test_which_products_are_packed() -> None:
    never = priced("x86-64-v3", False, products={"packed_wide": 1 << 60})
    large = product(128, 128, 128)
    assert "packed-dot" in opcodes(match_library(large, for_cpu("x86-64-v3", False)).entry)
    assert "packed-dot" not in opcodes(match_library(large, never).entry)


def test_the_shape_of_tiles() -> None:
    def tile(target: Target) -> tuple[int, int]:
        after = match_library(product(192, 192, 192), target).entry
        (found,) = (i for i in after.instructions if i.opcode == "packed-dot")
        return found.attributes["config"]["rows"], found.attributes["config"]["width"]

    assert tile(for_cpu("x86-64-v3", False)) != tile(
        priced("x86-64-v3", False, tiles={"loads": 0.5})
    )


def test_which_reductions_are_split() -> None:
    x = parameter(0, 1 << 18)
    before = module([x], reduce(x, (0,)))
    one_thread = priced(threads={"split_elements": 1 << 40})
    assert opcodes(split_reductions(before, for_cpu()).entry).count("reduce") == 2
    assert split_reductions(before, one_thread) is before


def test_what_is_computed_twice() -> None:
    """What reads each element of an exponential 256 times reads it in memory, unless exponentials are cheap."""
    x = parameter(0, 64)
    value = op("exponential", x)
    before = module([x], op("tanh", op("broadcast", value, dims=(64, 256), dimensions=(0,))))
    stored = fuse(before, for_cpu())
    computed = fuse(before, priced(ops={"exponential": Price(1.0, 0.15)}))
    assert opcodes(stored.entry).count("fusion") == opcodes(computed.entry).count("fusion") + 1


def kernel(target: Target) -> kernels.EmittedKernel:
    x = parameter(0, 1 << 20)
    after = pipeline.run(module([x], op("exponential", x)), target, Dump())
    fusion = after.entry.instructions[-1]
    return kernels.emit_kernel(target.module(), target, fusion, "kernel")


def test_how_much_work_is_worth_a_thread() -> None:
    usual, cautious = kernel(for_cpu()), kernel(priced(threads={"grain": 65_000.0}))
    assert 0 <= cautious.grain - 10 * usual.grain < 10  # each is rounded down
    slower = kernel(priced(ops={"exponential": Price(10.0, 150.0)}))
    assert slower.cost_ns > 5 * usual.cost_ns


# --------------------------------------------------------------------------------------- prices nowhere else
# Names of what is measured on a machine: times, rates, and the sizes from which on something else is faster.
_PRICE = re.compile(
    r"(^|_)(NS|NANOSECONDS|CYCLES?|FLOPS?|GFLOPS?|LATENCY|GRAIN|PER_NS|STREAM(ED|ING)|MULTIPLY_ADDS|COSTS?"
    r"|CHEAP|EXPENSIVE|WORTH\w*)(_|$)"
)
_ESTIMATE = re.compile(r"(^|_)(ns|cost|cycles|speed|grain|nanoseconds)$")
# Neutral factors of estimates: none, one, both operands, the halves of a complex number, 8 bits.
_NEUTRAL = {0, 1, 2, 4, 8}


def prices_in(text: str) -> Iterator[tuple[int, str]]:
    """Lines of a module that say what a machine takes for something: constants that are named so, and numbers in the
    expressions of what is named so. A number of times, or of bits, is not a price.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assign):
            names, value = node.targets, node.value
        elif isinstance(node, ast.AnnAssign | ast.AugAssign) and node.value is not None:
            names, value = [node.target], node.value
        else:
            continue
        numbers = [
            c.value
            for c in ast.walk(value)
            if isinstance(c, ast.Constant) and type(c.value) in (int, float)
        ]
        for target in names:
            name = getattr(target, "id", getattr(target, "attr", ""))
            if (numbers and _PRICE.search(name) and name.isupper()) or (
                _ESTIMATE.search(name) and any(n not in _NEUTRAL for n in numbers)
            ):
                yield node.lineno, name


#: Which of two equal choices is taken, or the instructions of an algorithm, whatever the machine.
ALLOWED = {
    "passes/library/window_products.py cycles": "of equal tiles, one whose rows are neighbours",
    "codegen/kernels/product_forms.py cost": "within half a percent two tiles are as good",
}


def test_no_module_outside_of_the_targets_holds_a_price() -> None:
    found = []
    for path in sorted(COMPILER.rglob("*.py")):
        where = path.relative_to(COMPILER).as_posix()
        # An op's registration has its price on the host; a target may have another one (Costs.ops).
        if where.startswith(("targets/", "ops/")) or where == "ir/registry.py":
            continue
        found += [
            f"{where}:{line}: {name}"
            for line, name in prices_in(path.read_text())
            if f"{where} {name}" not in ALLOWED
        ]
    assert not found, "prices belong into targets/<name>/costs.py:\n" + "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "GRAIN_NS = 8000.0",
        "_MIN_MULTIPLY_ADDS: Final = 80**3",
        "cost = 20.0 + moved * 0.03",
        "self.tile_ns = rows / 5.0",
        "total_cost += 0.03 * size",
    ],
)
def test_the_check_finds_prices(text: str) -> None:
    assert list(prices_in(text))


@pytest.mark.parametrize("text", ["cost = 2 * cost", "LONGEST_CODE = 256", "width = 64 // size"])
def test_the_check_leaves_other_numbers(text: str) -> None:
    assert not list(prices_in(text))
