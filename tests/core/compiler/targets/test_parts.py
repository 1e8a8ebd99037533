"""Large modules: compiled in parts, in several processes, while they are written."""

from __future__ import annotations

import os
import re
import signal
import struct
import threading
from contextlib import closing

import numpy as np
import pytest
from tripont.core.compiler.codegen import effort, llvm_ir
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.targets import code_cache, host
from tripont.core.compiler.targets.host import linker, parts, processes
from tripont.core.compiler.targets.image import Image

from ..codegen.harness import LoadedImage, fusion, op
from .test_host import run, sines

NAMES = [f"k{n}" for n in range(1, 7)]
VALUES = np.linspace(-1e6, 1e6, 40)


@pytest.fixture(autouse=True)
def _empty_cache():
    code_cache.clear()
    yield
    code_cache.clear()


def write(module, target, written=lambda module, names: None):
    for n, name in enumerate(NAMES, 1):
        sines(module, target, name, 3 * n)
        written(module, [name])


def check(image):
    """The image has the functions, and they compute sines."""
    loaded = LoadedImage(image)
    assert set(loaded.symbols) == set(NAMES)
    for n, name in enumerate(NAMES, 1):
        results = run(loaded, name, VALUES)
        x = VALUES.astype(np.float32)
        terms = [np.sin((x * np.float32(k)).astype(np.float64)) for k in range(3 * n)]
        np.testing.assert_allclose(results, sum(terms), atol=1e-5)
    return [run(loaded, name, VALUES) for name in NAMES]


@pytest.mark.parametrize("processors", [1, 2, 64])
@pytest.mark.parametrize("careful", [1 << 30, 0], ids=["careful", "quick"])
def test_parts_compute_what_the_whole_does(monkeypatch, processors, careful):
    """However many processes there are, the code is the same."""
    target, codes = host.for_cpu(), []
    module = target.module()
    write(module, target)
    expected = check(target.compile(module))
    for constant in ("PART", "SHARE", "QUICK_SHARE"):
        monkeypatch.setattr(parts, constant, 1 << 10)
    monkeypatch.setattr(effort, "CAREFUL", careful)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    for at_once in (False, True):
        module = target.module()
        with closing(target.start()) as compilation:
            write(module, target, (lambda *_: None) if at_once else compilation.written)
            assert compilation._keys if not at_once else not compilation._keys
            image = compilation.finish(module)
            assert len(compilation._keys) == len(NAMES)
        codes.append(image.code)
        for got, wanted in zip(check(image), expected, strict=True):
            np.testing.assert_array_equal(got, wanted)
        code_cache.clear()
    assert codes[0] == codes[1]


def test_llvm_compiles_beside_the_caller_when_the_module_is_complete(monkeypatch):
    target, began, written = host.for_cpu(), threading.Event(), threading.Event()
    compile_object = type(target).compile_object

    def while_another_writes(*arguments, **options):
        began.set()
        assert written.wait(60)
        return compile_object(*arguments, **options)

    monkeypatch.setattr(type(target), "compile_object", while_another_writes)
    monkeypatch.setattr(parts, "PART", 1 << 30)
    module = target.module()
    with closing(target.start()) as compilation:
        write(module, target)
        compilation.complete(module)
        assert began.wait(60)
        written.set()
        check(compilation.finish(module))


def test_llvm_compiles_the_first_functions_while_the_last_are_written(monkeypatch):
    target, compiled = host.for_cpu(), threading.Event()
    compile_object = type(target).compile_object

    def tell(*arguments, **options):
        made = compile_object(*arguments, **options)
        compiled.set()
        return made

    monkeypatch.setattr(type(target), "compile_object", tell)
    monkeypatch.setattr(parts, "PART", 1 << 30)
    monkeypatch.setattr(parts, "FIRST_SHARE", 1)
    module = target.module()

    def written(module, names):
        compilation.written(module, names)
        assert compiled.wait(60)

    with closing(target.start()) as compilation:
        write(module, target, written)
        image = compilation.finish(module)
    assert compilation._processes is None
    check(image)


def test_an_error_of_llvm_beside_the_caller_is_raised_at_the_end(monkeypatch):
    target = host.for_cpu()

    def refuse(*arguments, **options):
        raise CompileError("INTERNAL", "refused")

    monkeypatch.setattr(type(target), "compile_object", refuse)
    monkeypatch.setattr(parts, "PART", 1 << 30)
    module = target.module()
    with closing(target.start()) as compilation:
        write(module, target)
        compilation.complete(module)
        with pytest.raises(CompileError, match="refused"):
            compilation.finish(module)


def loaded_by_aarch64(code, at):
    """The 16 bytes that the two instructions at ``at``, ADRP and LDR, load in code that is mapped at a page."""
    adrp, ldr = struct.unpack_from("<II", code, at)
    assert adrp & 0x9F000000 == 0x90000000
    assert ldr & 0xFFC00000 == 0x3DC00000
    pages = (adrp >> 5 & 0x7FFFF) << 2 | adrp >> 29 & 3
    pages -= (pages & 1 << 20) << 1
    address = ((at >> 12) + pages << 12) + (ldr >> 10 & 0xFFF) * 16
    return code[address : address + 16]


@pytest.mark.parametrize("length", [1, 1500], ids=["of less than a page", "of more"])
def test_every_function_finds_its_constants_on_aarch64(length):
    """An instruction says a place in a page, and another how many pages there are between."""
    target = host.for_cpu("neoverse-n1")
    module = target.module()
    constants = {f"f{n}": range(1000 * n + 7, 1000 * n + 11) for n in range(3)}
    for name, constant in constants.items():
        b = llvm_ir.Builder(module, name, ["ptr"])
        b.store(llvm_ir.lanes_constant("i32", constant), b.arguments[0], 16)
        for _ in range(length):
            b.fence("seq_cst")
        b.ret()
        b.finish()
    image = target.compile(module)
    for name, constant in constants.items():
        assert loaded_by_aarch64(image.code, image.symbols[name]) == struct.pack("<4i", *constant)


def test_code_that_was_compiled_earlier_is_taken_from_the_cache(monkeypatch):
    monkeypatch.setattr(parts, "PART", 1 << 10)
    target, images = host.for_cpu(), []
    for _ in range(2):
        before = code_cache.hits()
        module = target.module()
        with closing(target.start()) as compilation:
            write(module, target, compilation.written)
            images.append(compilation.finish(module))
            made = compilation._processes
    assert code_cache.hits() == before + len(NAMES)
    assert made is None
    assert images[0].code == images[1].code


def test_only_code_behind_the_first_is_compiled_quickly(monkeypatch):
    """And never loops that carry values, whose registers quick code would put into memory."""
    target, seen = host.for_cpu(), []

    def compile_object(self, text, quick=False, *, dump=False):
        seen.append((re.findall(r"define void @(\w+)", text), quick))
        return compile_original(self, text, quick, dump=dump)

    compile_original = type(target).compile_object
    monkeypatch.setattr(type(target), "compile_object", compile_object)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    monkeypatch.setattr(os, "fork", no_fork)
    monkeypatch.setattr(parts, "FIRST_SHARE", parts.SHARE)
    module = target.module()
    x = hlo.parameter(0, hlo.Shape(F32, (64, 500)))
    zero = hlo.constant(np.float32(0), F32)
    add = [hlo.parameter(n, hlo.Shape(F32, ())) for n in range(2)]
    adder = hlo.Computation.from_root("add", add, op("add", add[0].shape, *add))
    row = op(
        "reduce",
        hlo.Shape(F32, (64,)),
        op("sine", x.shape, x),
        zero,
        called=[adder],
        dimensions=(1,),
    )
    with closing(target.start()) as compilation:
        sines(module, target, "first", 3)
        compilation.written(module, ["first"])
        monkeypatch.setattr(effort, "CAREFUL", module.size)
        sines(module, target, "second", 3)
        emit_kernel(module, target, fusion("reduce", [x], row), "sums")
        monkeypatch.setattr(parts, "PART", 1)
        image = compilation.finish(module)
    assert sorted(seen) == [(["first", "sums"], False), (["second"], True)]
    assert set(image.symbols) == {"first", "second", "sums"}


def no_fork():
    raise BlockingIOError("Resource temporarily unavailable")


def test_what_a_part_uses_is_in_it():
    module = host.for_cpu().module()
    for name, called in {"a": "b", "b": "shared", "c": "shared", "d": "b"}.items():
        b = llvm_ir.Builder(module, name, [])
        b.call("void", called, [])
        b.ret()
        b.finish()
    b = llvm_ir.Builder(module, "shared", [], linkage="internal", attributes="noinline")
    b.load("i32", b.constant_array("i32", ["7"]), 4)
    b.ret()
    b.finish()
    texts = [module.part(names) for names in (["a", "b"], ["c", "d"])]
    assert all(text.count("define internal void @shared") == 1 for text in texts)
    (table,) = module.globals
    assert all(text.count(f"{table} = ") == 1 for text in texts)
    assert "define internal void @b" in texts[1]
    images = [host.for_cpu().compile_text(text) for text in texts]
    assert sorted(sorted(image.symbols) for image in images) == [["a", "b"], ["c", "d"]]


def test_the_text_of_a_part_does_not_depend_on_the_rest_of_the_module():
    texts = []
    for others in (0, 2):
        module = host.for_cpu().module()
        module.attribute_group("cold")
        for n in range(others):
            sines(module, host.for_cpu(), f"other{n}", 3 + n)
            module.declare("llvm.fma.f64", "double", ["double"] * 3)
        sines(module, host.for_cpu(), "this", 2)
        texts.append(module.part(["this"]))
    assert texts[0] == texts[1]


def test_equal_functions_of_a_module_are_compiled_once(monkeypatch):
    target, texts = host.for_cpu(), []

    def compile_object(self, text, quick=False, *, dump=False):
        texts.append(text)
        return compile_original(self, text, quick, dump=dump)

    compile_original = type(target).compile_object
    monkeypatch.setattr(type(target), "compile_object", compile_object)
    module = target.module()
    for name in ("a", "b"):
        sines(module, target, name, 3)
    with closing(target.start()) as compilation:
        image = compilation.finish(module)
    assert re.findall(r"define void @(\w+)", "".join(texts)) == ["a"]
    assert image.symbols["a"] == image.symbols["b"]
    with closing(target.start(dump=True)) as compilation:  # which shows each
        dumped = compilation.finish(module)
    assert "\na:" in dumped.assembly
    assert "\nb:" in dumped.assembly
    loaded = LoadedImage(image)
    np.testing.assert_array_equal(run(loaded, "a", VALUES), run(loaded, "b", VALUES))


def test_programs_share_the_code_of_functions(monkeypatch):
    """Though others stand before them and between, and names are other ones: only new functions are compiled."""
    target = host.for_cpu()
    monkeypatch.setattr(parts, "PART", 1 << 20)

    def compiled(*functions):
        code_cache_misses = code_cache.misses()
        module = target.module()
        with closing(target.start()) as compilation:
            for name, terms in functions:
                sines(module, target, name, terms)
                compilation.written(module, [name])
            image = compilation.finish(module)
            assert compilation._processes is None
        return image, code_cache.misses() - code_cache_misses

    first = [("a", 2), ("b", 3), ("c", 4)]
    assert compiled(*first)[1] == 3
    longer = [("z", 5), *first[:1], ("y", 6), *first[1:]]
    image, made = compiled(*longer)
    assert made == 2
    code_cache.clear()
    assert compiled(*longer)[0].code == image.code
    loaded = LoadedImage(image)
    for name, terms in longer:
        x = VALUES.astype(np.float32)
        expected = sum(np.sin((x * np.float32(k)).astype(np.float64)) for k in range(terms))
        np.testing.assert_allclose(run(loaded, name, VALUES), expected, atol=1e-5)


def constants_of(module, name, *vectors):
    """A function that stores a vector of 64 bytes for each of the numbers, and reads one with an operand of a byte."""
    b = llvm_ir.Builder(module, name, ["ptr"])
    for n, first in enumerate(vectors):
        values = llvm_ir.lanes_constant("i32", range(first, first + 16))
        place = b.gep("i8", b.arguments[0], llvm_ir.i64(64 * n))
        b.store(b.add(values, b.load(values.type, place, 4)), place, 4)
    b.ret()
    b.finish()


def test_the_code_of_a_function_does_not_depend_on_what_it_is_compiled_with():
    """With vectors of 64 bytes, which LLVM puts in one section for all functions of a part."""
    target = host.for_cpu("x86-64-v4")
    functions = {"a": (3,), "b": (200, 3, 17), "c": (40, 200)}
    images = []
    for known in ((), ("a",), ("b",), ("c",), ("a", "b", "c")):
        code_cache.clear()
        for name in known:
            module = target.module()
            constants_of(module, f"other_{name}", *functions[name])
            with closing(target.start()) as compilation:
                compilation.finish(module)
        module = target.module()
        for name, vectors in functions.items():
            constants_of(module, name, *vectors)
        before = code_cache.hits()
        with closing(target.start()) as compilation:
            images.append(compilation.finish(module))
        assert code_cache.hits() - before == len(known)
    assert all(image.code == images[0].code for image in images)
    code = images[0].code
    for first in (3, 17, 40, 200):  # each once, whoever uses it
        assert code.count(struct.pack("<16i", *range(first, first + 16))) == 1


def test_a_function_with_a_table_of_jumps_is_compiled_alone():
    target = host.for_cpu()
    module = target.module()
    sines(module, target, "first", 2)
    b = llvm_ir.Builder(module, "choose", ["ptr", "i64", "i64"])
    labels = [b.new_label("case") for n in range(9)]
    b.switch(b.arguments[1], labels[-1], [(n, labels[n]) for n in range(8)])
    for n, label in enumerate(labels):
        b.start_block(label)
        b.store(llvm_ir.i64(n * n + 5), b.arguments[0], 8)
        for _ in range(n):  # so that LLVM finds no arithmetic for it
            b.fence("seq_cst")
        b.ret()
    b.finish()
    sines(module, target, "last", 3)
    with closing(target.start()) as compilation:
        image = compilation.finish(module)
        assert len(compilation._parts) == 3
    assert list(image.symbols) == ["first", "choose", "last"]
    loaded, result = LoadedImage(image), np.zeros(1, np.int64)
    for n in range(9):
        loaded.function("choose")(result.ctypes.data, n, 0)
        assert result[0] == n * n + 5


def test_functions_that_only_others_call_are_in_no_part_of_their_own():
    target = host.for_cpu()
    module = target.module()
    sines(module, target, "inner", 2)
    sines(module, target, "first", 3)
    b = llvm_ir.Builder(module, "outer", ["ptr", "i64", "i64"])
    b.call("void", "inner", b.arguments)
    b.ret()
    b.finish()
    module.launched = {"outer", "first"}
    before = code_cache.misses()
    with closing(target.start()) as compilation:
        image = compilation.finish(module)
    assert code_cache.misses() - before == 2
    assert set(image.symbols) == {"outer", "first"}


def write_broken(module, name):
    b = llvm_ir.Builder(module, name, [])
    b.ret(llvm_ir.i64(1))  # but its type is void
    b.finish()


def test_a_part_that_llvm_refuses_is_an_error(monkeypatch):
    monkeypatch.setattr(parts, "PART", 10)
    target = host.for_cpu()
    for count in (1, 5):  # by this process or by a child, or by both
        module = target.module()
        for n in range(count):
            write_broken(module, f"f{n}")
        with pytest.raises(CompileError, match="LLVM rejects the generated IR"):
            target.compile(module)


@pytest.mark.parametrize("possible", [0, 1])
def test_where_no_process_can_be_made_there_are_fewer(monkeypatch, possible):
    monkeypatch.setattr(parts, "PART", 1 << 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
    fork, made = os.fork, []

    def fork_some():
        if len(made) == possible:
            raise BlockingIOError("Resource temporarily unavailable")
        made.append(None)
        return fork()

    monkeypatch.setattr(os, "fork", fork_some)
    target = host.for_cpu()
    module = target.module()
    before = os.listdir("/proc/self/fd")
    with closing(target.start()) as compilation:
        write(module, target, compilation.written)
        assert len(compilation._processes._children) == possible
        check(compilation.finish(module))
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("when", ["none was made", "killed"])
def test_more_parts_than_a_pipe_holds_need_no_child(monkeypatch, when):
    """The pipe holds some 2,700 parts, and nobody reads it but the process that writes."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(2)))
    if when == "none was made":
        monkeypatch.setattr(os, "fork", no_fork)

    class Target:
        def compile_object(self, text, quick=False, *, dump=False):
            if os.getpid() != parent:
                signal.pause()
            return Image(text.encode(), {}, [])

    parent = os.getpid()
    with closing(processes.Processes(Target(), False)) as compilation:
        for child in compilation._children:
            os.kill(child._process, signal.SIGKILL)
        for number in range(3000):
            compilation.put(number, f"part {number}", False)
        images = compilation.finish()
    assert {n: image.code for n, image in images.items()} == {
        n: f"part {n}".encode() for n in range(3000)
    }


@pytest.mark.parametrize("when", ["idle", "at its first part", "at its second part"])
@pytest.mark.parametrize("processors", [2, 4])
def test_parts_of_a_child_that_is_killed_are_compiled_by_the_parent(monkeypatch, when, processors):
    """As the kernel does when memory runs out, to one child or to all."""
    monkeypatch.setattr(parts, "PART", 1 << 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    target = host.for_cpu()
    parent, compiled = os.getpid(), []
    compile_original = type(target).compile_object

    def compile_object(self, text, quick=False, *, dump=False):
        compiled.append(text)
        if os.getpid() != parent and len(compiled) == {"at its first part": 1}.get(when, 2):
            os.kill(os.getpid(), signal.SIGKILL)
        return compile_original(self, text, quick, dump=dump)

    if when != "idle":
        monkeypatch.setattr(type(target), "compile_object", compile_object)
    module = target.module()
    before = os.listdir("/proc/self/fd")
    with closing(target.start()) as compilation:
        write(module, target, compilation.written)
        if when == "idle":
            os.kill(compilation._processes._children[0]._process, signal.SIGKILL)
        check(compilation.finish(module))
    assert os.listdir("/proc/self/fd") == before


def test_a_child_that_llvm_ends_is_an_error(monkeypatch):
    monkeypatch.setattr(parts, "PART", 1 << 10)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    target = host.for_cpu()
    parent = os.getpid()

    def compile_object(self, text, quick=False, *, dump=False):
        if os.getpid() == parent:  # leaves no part to the child if it is quick
            return linker.Object({})
        os.write(2, b"LLVM ERROR: out of ideas")
        os.abort()

    monkeypatch.setattr(type(target), "compile_object", compile_object)
    module = target.module()
    with closing(target.start()) as compilation:
        write(module, target, compilation.written)
        child = compilation._processes._children[0]._process
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # it has taken a part by now
        with pytest.raises(CompileError, match="compiling a part of a module: LLVM ERROR: out of"):
            compilation.finish(module)


def test_children_end_with_a_compilation_that_is_given_up(monkeypatch):
    monkeypatch.setattr(parts, "PART", 1 << 10)
    target = host.for_cpu()
    module = target.module()
    with closing(target.start()) as compilation:
        write(module, target, compilation.written)
        children = [child._process for child in compilation._processes._children]
        descriptors = compilation._processes._read, compilation._processes._write
    assert children
    for process in children:
        with pytest.raises(ChildProcessError):
            os.waitpid(process, os.WNOHANG)
    for descriptor in descriptors:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)


@pytest.mark.parametrize("part", [1 << 30, 1 << 10], ids=["whole", "parts"])
def test_dumping_changes_neither_code_nor_results(monkeypatch, part):
    monkeypatch.setattr(parts, "PART", part)
    target, images = host.for_cpu(), []
    for dump in (False, True):
        module = target.module()
        write(module, target)
        images.append(target.compile(module, dump=dump))
    quiet, dumped = images
    assert quiet.symbols == dumped.symbols  # so every function has its length
    assert len(quiet.code) == len(dumped.code)
    for name in quiet.symbols:
        results = [run(LoadedImage(image), name, VALUES) for image in images]
        np.testing.assert_array_equal(*results)
    for name in quiet.symbols:
        assert dumped.optimised_ir.count(f" @{name}(") == 1
        assert len(re.findall(rf"^{name}:", dumped.assembly, re.MULTILINE)) == 1
    assert quiet.optimised_ir == quiet.assembly == ""


def test_local_labels_of_joined_assembly_are_unique(monkeypatch):
    monkeypatch.setattr(parts, "PART", 1 << 10)
    target = host.for_cpu()
    module = target.module()
    write(module, target)
    assembly = target.compile(module, dump=True).assembly
    defined = re.findall(r"^(\.L[A-Za-z_]+\d\w*):", assembly, re.MULTILINE)
    assert len(defined) == len(set(defined)) > 6
    used = set(re.findall(r"\.LBB\d+_\d+", assembly))
    assert used <= set(defined)
