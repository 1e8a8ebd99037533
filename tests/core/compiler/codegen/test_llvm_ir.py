"""The kernel IR: every instruction's text is one that LLVM takes, and constants are numbers."""

from __future__ import annotations

import llvmlite.binding as llvm
import pytest
from tripont.core.compiler.codegen import llvm_ir
from tripont.core.compiler.codegen.llvm_ir import Builder, Module, Value, i64, text

V4 = "<4 x float>"


def write_everything(module: Module) -> Builder:
    """A function with every kind of instruction that a builder has a method for."""
    b = Builder(module, "f", ["ptr", "i64", "float", V4, "<4 x i1>"], "i64", arrays=2)
    p, n, x, v, mask = b.arguments
    for opcode in sorted(text.BINARY):
        is_float = opcode[0] == "f"
        b.binary(opcode, *((x, x) if is_float else (n, n)))
    b.binary("fadd contract", v, v)
    for opcode in ("trunc", "zext", "sext"):
        b.cast(opcode, n, "i32" if opcode == "trunc" else "i128")
    b.cast("fpext", x, "double")
    b.cast("fptrunc", x, "half")
    for opcode in ("fptosi", "fptoui", "bitcast"):
        b.cast(opcode, x, "i32")
    for opcode in ("sitofp", "uitofp"):
        b.cast(opcode, n, "float")
    b.cast("inttoptr", b.cast("ptrtoint", p, "i64"), "ptr")
    b.cast("addrspacecast", p, "ptr addrspace(4)")
    b.fneg(v)
    b.select(mask, v, llvm_ir.zero(V4))
    b.store(b.load(V4, p, 4), p, 16, nontemporal=True)
    addresses = b.gep("float", p, b.lane_offsets(4, 3))
    b.scatter(b.gather(V4, addresses, 4), addresses, 4, mask)
    b.masked_store(b.masked_load(V4, p, 4, mask), p, 4, mask)
    b.prefetch(b.gep("float", p, i64(100), inbounds=False), write=True, locality=1)
    b.store(x, b.alloca("float", 3), 4)
    b.intrinsic("fma", [v, v, v], "contract")
    b.insert(b.splat(x, 4), b.extract(v, n), 2)
    b.shuffle(v, v, (0, 5, 2, 7))
    b.load("i32", b.constant_array("i32", ["1", "2"]), 4)
    b.load("i32", b.local_memory("i32", 8, 0), 4)
    first, _ = b.elements(b.aggregate([n, x]), ["i64", "float"])
    b.fence("seq_cst")
    with b.loop_carrying(i64(0), n, 1, [v]) as (i, carried, _):
        carried[:] = [b.binary("fadd", carried[0], v)]
        b.fcmp("olt", x, b.cast("sitofp", i, "float"))
    other, done = b.new_label("other"), b.new_label("done")
    b.branch_if(b.any_lane(mask), other, done)
    before = b.block
    b.start_block(other)
    b.switch(n, done, [(1, done)])
    b.start_block(done)
    b.ret(b.phi([(first, before), (i64(1), other), (i64(1), other)]))
    b.finish()
    return b


class KeepingModule(Module):
    keeps_instructions = True


def test_llvm_takes_every_instruction() -> None:
    module = KeepingModule()
    function = write_everything(module).function
    with llvm.parse_assembly(str(module), llvm.context.create_context()) as parsed:
        parsed.verify()
    written = {i.code for block in function.blocks for i in block.instructions}
    assert written == set(text.LINES)


def test_functions_say_what_their_text_would() -> None:
    module = KeepingModule()
    f = write_everything(module).function
    assert f.lines == f.body.count("\n")
    assert f.size == module.size == str(module).index("declare") - str(module).index("define") - 1
    assert f.values == max(i.result.number for b in f.blocks for i in b.instructions if i.result)
    assert f.carries_values
    assert f.has_scalar("double")
    assert not f.has_scalar("i8")
    assert any(name.startswith("@table.") for name in f.references)
    assert "llvm.fma.v4f32" in f.references


def test_instructions_are_kept_only_for_targets_that_rewrite_them() -> None:
    module = Module()
    write_everything(module)
    assert module.functions["f"].blocks == []
    assert "fneg" in str(module)


@pytest.mark.parametrize(("value", "number"), [
    (llvm_ir.integer("i8", 255), -1),
    (llvm_ir.integer("<4 x i32>", 7), 7),
    (llvm_ir.integer("i1", 1), 1),
    (llvm_ir.floating("float", 0.1), 0.10000000149011612),
    (llvm_ir.floating("half", 1e9), float("inf")),
    (llvm_ir.zero("<2 x double>"), 0.0),
    (llvm_ir.zero("ptr"), 0),
    (llvm_ir.lanes_constant("i1", [True, False]), (1, 0)),
    (llvm_ir.poison("float"), llvm_ir.POISON),
])  # fmt: skip
def test_constants_are_numbers(value: Value, number: object) -> None:
    assert value.constant == number
    assert value.is_constant
    assert not value.is_global


def test_nan_is_equal_to_itself() -> None:
    """What was made of it once is found again."""
    first, second = float("nan"), float("nan")
    assert first is not second
    assert llvm_ir.floating("float", first) == llvm_ir.floating("float", second)


@pytest.mark.parametrize("type_", ["i64", "<4 x i64>"])
def test_arithmetic_of_constants_is_folded(type_: str) -> None:
    b = Builder(Module(), "f", [type_])
    (x,) = b.arguments
    zero, one, two = (llvm_ir.integer(type_, n) for n in range(3))
    assert b.add(x, zero) is b.add(zero, x) is b.sub(x, zero) is b.mul(x, one) is b.mul(one, x) is x
    assert b.mul(x, zero) is b.mul(zero, x) is zero
    assert b.add(x, llvm_ir.zero(type_)) is x
    assert b.add(one, two) == llvm_ir.integer(type_, 3)
    assert b.sub(one, two) == llvm_ir.integer(type_, -1)
    assert b.mul(two, two) == llvm_ir.integer(type_, 4)
    assert b.count == 0
    assert b.add(x, two).number == 1


def test_lanes_that_differ_are_no_single_number() -> None:
    b = Builder(Module(), "f", ["<4 x i64>"])
    steps = b.lane_offsets(4)
    assert b.add(b.arguments[0], steps).number == 1
    assert b.mul(b.arguments[0], steps).number == 2


def test_lanes_that_are_known_are_folded() -> None:
    b = Builder(Module(), "f", [])
    steps, three = b.lane_offsets(4), llvm_ir.integer("<4 x i64>", 3)
    assert b.mul(steps, three).constant == (0, 3, 6, 9)
    assert b.add(steps, three).constant == (3, 4, 5, 6)
    below = b.sub(steps, llvm_ir.integer("<4 x i64>", 2))
    assert below.constant == (-2, -1, 0, 1)
    assert b.icmp("slt", below, llvm_ir.integer("<4 x i64>", 0)).constant == (1, 1, 0, 0)
    inside = b.icmp("ult", below, llvm_ir.integer("<4 x i64>", 1))  # numbers without a sign
    assert inside.constant == (0, 0, 1, 0)
    assert b.binary("or", inside, b.icmp("eq", steps, three)).constant == (0, 0, 1, 1)
    assert b.count == 0


def test_local_arrays_of_one_name_are_equal() -> None:
    module = Module()
    place = module.local_array("f", "float", 8, 0)
    assert module.local_array("f", "float", 8, 0) == place
    with pytest.raises(ValueError, match="two arrays"):
        module.local_array("f", "float", 9, 0)


def stored(lanes: list[int]) -> list[str]:
    """What is written for a store of 16-bit integers that were truncated, in some lanes."""
    module = KeepingModule()
    b = Builder(module, "f", ["<16 x i32>", "ptr"])
    mask = llvm_ir.lanes_constant("i1", [n in lanes for n in range(16)])
    b.masked_store(b.cast("trunc", b.arguments[0], "<16 x i16>"), b.arguments[1], 2, mask)
    b.ret()
    b.finish()
    (block,) = module.functions["f"].blocks
    return [i.code for i in block.instructions if i.code != "ret"]


def test_a_masked_store_of_one_lane_is_a_store_of_its_element() -> None:
    assert stored([0]) == ["trunc", "extractelement", "store"]
    assert stored([5]) == ["trunc", "extractelement", "getelementptr", "store"]
    assert stored([0, 1]) == ["trunc", "masked store"]


def caller(helper: str) -> Module:
    """A module of ``f``, which calls a helper that does ``helper`` to a number twice over."""
    module = Module()
    b = Builder(module, "@helper", ["float"], "float", linkage="internal")
    b.ret(b.binary(helper, b.arguments[0], b.arguments[0]))
    b.finish()
    b = Builder(module, "@f", ["float"], "float")
    b.ret(b.call("float", "@helper", b.arguments))
    b.finish()
    return module


def test_a_digest_that_is_taken_over_is_that_of_the_meaning() -> None:
    taken = {}
    for helper in ("fadd", "fmul"):
        first, second = caller("fadd"), Module()
        known = first.digest("@f")
        closed = first.closed("@f")
        if helper != "fadd":  # the other module has another helper of the name
            other = caller(helper).closed("@f")
            second.take(other, "@before")
        second.take(closed, "@after")
        kept = second.functions["@after"].digest
        assert kept == (known if helper == "fadd" else b"")
        taken[helper] = second.digest("@after")
        second.functions["@after"].digest = b""
        assert second.digest("@after") == taken[helper]
    assert taken["fadd"] != taken["fmul"]
