"""Choices of which LLVM must not make masked stores (codegen/llvm_ir/stores.py)."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.llvm_ir.stores import stored_choices
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.host.target import HostTarget

from tests.core.compiler.codegen import native

pytestmark = pytest.mark.skipif(not for_cpu().is_x86, reason="these are instructions of x86")
VECTORS = {"float": np.float32, "double": np.float64, "i32": np.int32, "i64": np.int64}


def choice(
    target: HostTarget, scalar: str, old_first: bool, elsewhere: bool, masks_stores: bool = False
) -> llvm_ir.Module:
    """f(x, y, z): y where y > 0, else x, to x (or to z, ``elsewhere``)."""
    lanes = target.vector_bytes // np.dtype(VECTORS[scalar]).itemsize
    type_ = llvm_ir.vector(scalar, lanes)
    module = target.module()
    module.masks_stores |= masks_stores
    b = llvm_ir.Builder(module, "f", ["ptr"] * 3)
    x, y, z = b.arguments
    old, new, zero = b.load(type_, x, 4), b.load(type_, y, 4), llvm_ir.zero(type_)
    is_greater = b.fcmp("ogt", new, zero) if scalar[0] != "i" else b.icmp("sgt", new, zero)
    chosen = b.select(is_greater, new, old)
    if old_first:
        chosen = b.select(
            b.binary("xor", is_greater, llvm_ir.integer(is_greater.type, 1)), old, new
        )
    b.store(chosen, z if elsewhere else x, 4)
    b.ret()
    b.finish()
    return module


def assembly(target: HostTarget, module: llvm_ir.Module) -> str:
    return str(target.compile_object(str(module), dump=True).assembly)


@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver3", "haswell"])
@pytest.mark.parametrize("old_first", [False, True])
@pytest.mark.parametrize("scalar", VECTORS)
def test_with_avx_alone_all_lanes_are_stored(scalar: str, old_first: bool, cpu: str) -> None:
    target = for_cpu(cpu)
    assert "maskmov" not in assembly(target, choice(target, scalar, old_first, False))


@pytest.mark.parametrize("scalar", VECTORS)
def test_llvm_would_store_some(scalar: str) -> None:
    """If it does so no longer, the module is not needed."""
    target = for_cpu("x86-64-v3")
    assert "maskmov" in assembly(target, choice(target, scalar, False, False, masks_stores=True))


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize("old_first", [False, True])
@pytest.mark.parametrize("scalar", VECTORS)
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"])
def test_what_is_stored(cpu: str, scalar: str, old_first: bool, elsewhere: bool) -> None:
    target = for_cpu(cpu)
    native.needs(target)
    image = native.NativeImage(target.compile(choice(target, scalar, old_first, elsewhere)))
    function = image.function("f", None, *[ctypes.c_void_p] * 3)
    lanes = target.vector_bytes // np.dtype(VECTORS[scalar]).itemsize
    x, y = (
        np.arange(lanes).astype(VECTORS[scalar]),
        (np.arange(lanes) % 3 - 1).astype(VECTORS[scalar]),
    )
    z = np.zeros_like(x)
    expected = np.where(y > 0, y, x)
    function(x.ctypes.data, y.ctypes.data, z.ctypes.data)
    np.testing.assert_array_equal(z if elsewhere else x, expected)


@pytest.mark.parametrize("old_first", [False, True])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_choices_that_are_stored_where_one_of_the_two_lies(
    old_first: bool, elsewhere: bool
) -> None:
    b = llvm_ir.Builder(llvm_ir.Module(), "f", ["ptr", "ptr", "<8 x i1>", "<8 x float>"])
    x, z, mask, new = b.arguments
    old = b.load(new.type, x, 4)
    chosen = b.select(mask, old, new) if old_first else b.select(mask, new, old)
    b.store(chosen, z if elsewhere else x, 4)
    assert stored_choices(b.function) == (set() if elsewhere else {chosen.number})


@pytest.mark.parametrize(("cpu", "gathers"), [("znver3", True), ("x86-64-v3", False)])
def test_eight_elements_are_read_by_one_instruction_where_that_is_faster(
    cpu: str, gathers: bool
) -> None:
    target = for_cpu(cpu)
    module = target.module()
    b = llvm_ir.Builder(module, "f", ["ptr", "ptr", "ptr"], attributes=target.function_attributes)
    places = b.cast("zext", b.load("<8 x i32>", b.arguments[1], 4), "<8 x i64>")
    numbers = b.gather("<8 x float>", b.gep("float", b.arguments[0], places), 4)
    b.store(numbers, b.arguments[2], 4)
    b.ret()
    b.finish()
    assert ("gather" in assembly(target, module)) == gathers
