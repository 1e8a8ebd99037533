"""The registry of ops: what it refuses, and that a first look finds every op."""

from __future__ import annotations

import functools
import importlib
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from tripont.core.compiler.ir import registry
from tripont.core.compiler.ir.registry import AS_IT_STANDS, Absent, OpError, Price
from tripont.core.compiler.ir.shape_rules import same_shape

PARTS: dict[str, Any] = {
    "operands": 1,
    "elementwise": True,
    "shape": same_shape,
    "evaluate": lambda i, a: a,
    "read": {"toy.halve": AS_IT_STANDS},
    "generate": lambda g, i, o: o[0],
    "price": Price(),
}
TABLES = (
    registry.OPS,
    registry.OPCODES_AS_THEY_STAND,
    registry.READERS,
    registry.CALLS,
    registry.COMPOSITES,
)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    registry.load()
    before = [set(table) for table in TABLES]
    yield
    for table, names in zip(TABLES, before, strict=True):
        for name in set(table) - names:
            del table[name]


@pytest.mark.parametrize("part", ["shape", "evaluate", "read", "price"])
def test_an_op_without_a_part_is_refused(part: str) -> None:
    parts = {name: value for name, value in PARTS.items() if name != part}
    with pytest.raises(OpError, match=f"'halve' is registered without its part '{part}'"):
        registry.register("halve", **parts)
    assert registry.find("halve") is None


def test_an_op_without_code_is_refused() -> None:
    with pytest.raises(OpError, match="'halve' is registered without its part 'code'"):
        registry.register("halve", **{**PARTS, "generate": None})


def test_attributes_must_be_written() -> None:
    with pytest.raises(OpError, match="'halve' is registered without its part 'fields'"):
        registry.register("halve", **PARTS, attributes=("times",))
    registry.register("halve", **PARTS, attributes=("times",), fields=Absent("HLO has none"))
    assert registry.OPS["halve"].attributes == ("times",)


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(OpError, match="'halve' is registered with an unknown part 'colour'"):
        registry.register("halve", **PARTS, colour="red")


def test_a_second_registration_is_refused() -> None:
    with pytest.raises(OpError, match="'add' is registered twice"):
        registry.register("add", **PARTS)


def test_a_second_reader_is_refused() -> None:
    with pytest.raises(OpError, match=r"the operation 'stablehlo\.add' has two readers"):
        registry.register("halve", **{**PARTS, "read": {"stablehlo.add": AS_IT_STANDS}})
    with pytest.raises(OpError, match="the custom call 'TopK' has two readers"):
        registry.read_as({}, calls={"TopK": lambda block, operation, config: None})


@pytest.mark.parametrize("look", ["OPS['topk'].operands == 1", "find('topk')", "all_ops()[100]"])
def test_the_first_look_imports_the_families(look: str) -> None:
    program = f"from tripont.core.compiler.ir.registry import OPS, all_ops, find; assert {look}"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_kernels_are_named_after_modules() -> None:
    """A name is not looked at before the kernel is written."""
    registry.load()
    kernels = {*registry.FUSION_KINDS.values(), *(op.kernel for op in registry.OPS.values())}
    named = [kernel for kernel in kernels if isinstance(kernel, functools.partial)]
    assert len(named) > 10
    for kernel in named:
        assert callable(
            importlib.import_module(f"tripont.core.compiler.codegen.kernels.{kernel.args[0]}").emit
        )
