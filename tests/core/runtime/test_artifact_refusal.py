"""Damaged and unsuitable artifacts: refused with a reason when they are loaded, never a crash."""

from __future__ import annotations

import random
import resource
import struct
import zlib
from dataclasses import replace

import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_CONSTANT,
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    ALLOCATION_TEMP,
    Allocation,
    Conditional,
    Copy,
    FunctionOffset,
    Kernel,
    LibraryCall,
    Operand,
    Slice,
    Value,
    While,
)
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.ir.recursion import deep_recursion

from tests.core.runtime import programs
from tests.core.runtime.conftest import status
from tests.core.runtime.programs import F32_8, FEATURE, function, whole


def load(data: bytes):
    return _tripont.Executable.load(data)


def refusal(**changes):
    """Code and message for the example with some fields replaced."""
    return status(lambda: load(programs.serialize(programs.executable(**changes))))


def repair(data: bytes) -> bytes:
    """The bytes with size and checksum made right again, so that damage gets past them."""
    return data[:12] + struct.pack("<IQ", zlib.crc32(data[24:]), len(data)) + data[24:]


@pytest.fixture(scope="module")
def rich() -> bytes:
    """The artifact of the program that has most kinds of records."""
    return programs.serialize(programs.rich())


def test_the_examples_load(rich):
    assert load(rich).program == b"hlo"
    assert load(repair(rich)).name == "add"


@pytest.mark.parametrize(
    "data", [b"", b"TRIPONT", b"not an artifact" * 10, b"\x7fELF" + bytes(200)]
)
def test_other_bytes(data):
    code, message = status(lambda: load(data))
    assert code == "INVALID_ARGUMENT"
    assert "not a tripont artifact" in message


def test_another_format_version(rich):
    code, message = status(lambda: load(rich[:8] + struct.pack("<I", 99) + rich[12:]))
    assert code == "FAILED_PRECONDITION"
    assert "format 99" in message
    assert f"format {artifact.FORMAT_VERSION}" in message


def test_every_truncation(rich):
    for size in [*range(400), *range(400, len(rich), 13)]:
        assert status(lambda size=size: load(rich[:size]))[0] == "INVALID_ARGUMENT"
    assert "truncated or padded" in status(lambda: load(rich + b"x"))[1]


def test_every_changed_byte_is_found(rich):
    for position in [*range(600), *range(600, len(rich), 7)]:
        damaged = bytearray(rich)
        damaged[position] ^= 0x10
        assert status(lambda damaged=damaged: load(bytes(damaged)))[0] in {
            "INVALID_ARGUMENT",
            "FAILED_PRECONDITION",
        }


def test_truncations_with_a_right_checksum(rich):
    end = struct.unpack_from("<Q", rich, 32 + 8)[0] + struct.unpack_from("<Q", rich, 32 + 16)[0]
    for size in range(32, end):
        assert status(lambda size=size: load(repair(rich[:size])))[0] == "INVALID_ARGUMENT"


def test_random_damage_with_a_right_checksum(rich):
    """Loads or is refused with a status; what it may not do is crash or read outside its bytes."""
    generator = random.Random(1)
    offset, size = struct.unpack_from("<QQ", rich, 32 + 8)  # META is the first section
    outcomes = set()
    for _ in range(6000):
        damaged = bytearray(rich)
        for _ in range(generator.choice((1, 1, 1, 2, 5))):
            where = (
                generator.randrange(24, 152)
                if generator.random() < 0.1
                else generator.randrange(offset, offset + size)
            )
            damaged[where] = generator.choice((0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256)))
        try:
            load(repair(bytes(damaged)))
            outcomes.add("OK")
        except _tripont.StatusError as error:
            outcomes.add(error.code)
        except TypeError:
            pytest.fail("an error without a status")
    assert {"OK", "INVALID_ARGUMENT"} <= outcomes
    assert outcomes <= {
        "OK",
        "INVALID_ARGUMENT",
        "FAILED_PRECONDITION",
        "UNIMPLEMENTED",
        "RESOURCE_EXHAUSTED",
    }


def _sized(**changes):
    """A program whose one result has a size that depends on values, with some fields replaced."""
    results = (Value(F32_8), Value(Shape(dtypes.S32)), Value(Shape(dtypes.PRED)))
    example = programs.executable()
    allocations = tuple(a for a in example.allocations if a.kind != ALLOCATION_RESULT)
    made = tuple(Allocation(ALLOCATION_RESULT, n, r.shape.bytes) for n, r in enumerate(results))
    fields = {
        "visible_results": 1,
        "dynamic_results": ((0, 0, 1),),
        "size_checks": ((2, "why"),),
        "results": results,
        "allocations": (*allocations, *made),
        "thunks": (),
    }
    return programs.serialize(programs.executable(**fields | changes))


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"visible_results": 4}, "4 of 3 results are visible"),
        ({"dynamic_results": ((1, 0, 1),)}, "bad size of dimension 0 of result 1"),
        ({"dynamic_results": ((-1, 0, 1),)}, "bad size of dimension 0 of result -1"),
        ({"dynamic_results": ((0, 1, 1),)}, "bad size of dimension 1"),
        ({"dynamic_results": ((0, -1, 1),)}, "bad size of dimension -1"),
        ({"dynamic_results": ((0, 0, 2),)}, "bad size of dimension 0"),
        ({"dynamic_results": ((0, 0, 3),)}, "bad size of dimension 0"),
        ({"dynamic_results": ((0, 0, 0),)}, "bad size of dimension 0"),
        ({"size_checks": ((1, "why"),)}, "bad check of sizes by result 1"),
        ({"size_checks": ((9, "why"),)}, "bad check of sizes by result 9"),
        ({"size_checks": ((-2, "why"),)}, "bad check of sizes by result -2"),
    ],
)
def test_sizes_of_results(changes, what):
    assert load(_sized()).name == "add"
    code, message = status(lambda: load(_sized(**changes)))
    assert (code, what in message) == ("INVALID_ARGUMENT", True), message


def test_target_and_architecture():
    code, message = refusal(target="sycl")
    assert code == "FAILED_PRECONDITION"
    assert "'sycl'" in message
    code, message = refusal(triple="riscv64-unknown-linux-gnu")
    assert code == "FAILED_PRECONDITION"
    assert "riscv64" in message


def test_missing_cpu_feature_is_named():
    code, message = refusal(cpu_features=(FEATURE, "amx-future"), cpu="futurelake")
    assert code == "FAILED_PRECONDITION"
    assert "amx-future" in message
    assert "futurelake" in message
    assert FEATURE not in message


def test_unknown_import_and_memory_kind():
    code, message = refusal(imports=(("system", function("import_memcpy")),))
    assert (code, "system" in message) == ("UNIMPLEMENTED", True)
    assert refusal(results=(Value(F32_8, "hbm3"),))[0] == "UNIMPLEMENTED"


def kernel(**changes):
    base = Kernel(function("add"), (whole(0, 32), whole(1, 32), whole(2, 32)), 8, 1024, 10.0)
    return replace(base, **changes)


BIG = 1 << 62
OPERAND = Operand(whole(0, 32), F32_8)
WRONG_THUNKS = {
    "function before the code": lambda: kernel(function=-1),
    "function after the code": lambda: kernel(function=1 << 20),
    "negative work": lambda: kernel(work_count=-1),
    "negative grain": lambda: kernel(grain=-1),
    "cost not a number": lambda: kernel(cost_ns=float("nan")),
    "no such allocation": lambda: kernel(arguments=(whole(9, 4),)),
    "slice too long": lambda: kernel(arguments=(whole(0, 33),)),
    "slice starts outside": lambda: kernel(arguments=(Slice(0, 40, 0),)),
    "slice overflows": lambda: kernel(arguments=(Slice(0, 2**64 - 8, 16),)),
    "slice end overflows": lambda: kernel(arguments=(Slice(0, 8, 2**64 - 8),)),
    "debug does not exist": lambda: kernel(debug=5),
    "debug negative": lambda: kernel(debug=-2),
    "copy of unequal sizes": lambda: Copy(whole(2, 16), whole(0, 32)),
    "copy to a parameter": lambda: Copy(whole(1, 32), whole(0, 32)),
    "loop without predicate": lambda: While((), (), Slice(0, 0, 0)),
    "loop count": lambda: While((), (), Slice(0, 0, 1), -2),
    "bad thunk inside a loop": lambda: While((), (kernel(function=-1),), Slice(0, 0, 1)),
    "no branches": lambda: Conditional(Slice(0, 0, 4), False, ()),
    "one branch of two": lambda: Conditional(Slice(0, 0, 1), True, ((),)),
    "selector too small": lambda: Conditional(Slice(0, 0, 2), False, ((),)),
    "unaligned selector": lambda: Conditional(Slice(0, 2, 4), False, ((),)),
    "operand larger than its slice": lambda: LibraryCall(
        "gemm", (Operand(whole(0, 32), Shape(dtypes.F32, (9,))),), (), {}, 1.0
    ),
    "library call writes a parameter": lambda: LibraryCall("gemm", (OPERAND,), (OPERAND,), {}, 1.0),
    "function attribute outside": lambda: LibraryCall(
        "gemm", (OPERAND,), (), {"comparator": FunctionOffset(1 << 30)}, 1.0
    ),
}


@pytest.mark.parametrize("name", WRONG_THUNKS)
def test_wrong_thunk(name):
    code, message = refusal(thunks=(WRONG_THUNKS[name](),))
    assert code == "INVALID_ARGUMENT", message


P0, P1 = Allocation(ALLOCATION_PARAMETER, 0, 32), Allocation(ALLOCATION_PARAMETER, 1, 32)
R0 = Allocation(ALLOCATION_RESULT, 0, 32)
WRONG_ALLOCATIONS = {
    "unknown kind": (P0, P1, R0, Allocation(7, 0, 32)),
    "negative size": (P0, P1, R0, Allocation(ALLOCATION_TEMP, 0, -1)),
    "huge size": (P0, P1, R0, Allocation(ALLOCATION_TEMP, 0, BIG)),
    "parameter of another size": (P0, Allocation(ALLOCATION_PARAMETER, 1, 640), R0),
    "parameter in less than it has": (Allocation(ALLOCATION_PARAMETER, 0, 28), P1, R0),
    "result in less than it has": (P0, P1, Allocation(ALLOCATION_RESULT, 0, 28)),
    "no such parameter": (P0, P1, R0, Allocation(ALLOCATION_PARAMETER, 2, 32)),
    "parameter twice": (P0, P1, R0, P0),
    "result twice": (P0, P1, R0, R0),
    "no such result": (P0, P1, Allocation(ALLOCATION_RESULT, 1, 32)),
    "result missing": (P0, P1, Allocation(ALLOCATION_TEMP, 0, 32)),
    "constant outside": (P0, P1, R0, Allocation(ALLOCATION_CONSTANT, 0, 32, offset=64)),
    "unaligned constant": (P0, P1, R0, Allocation(ALLOCATION_CONSTANT, 0, 0, offset=8)),
    "aliases a parameter that has its own": (P0, P1, replace(R0, aliased_parameter=1)),
    "aliases no parameter": (P0, P1, replace(R0, aliased_parameter=5)),
    "aliases a parameter that is not donatable": (P0, replace(R0, aliased_parameter=1), P1),
    "temporary that aliases": (P0, P1, R0, Allocation(ALLOCATION_TEMP, 0, 32, 0, 0)),
}


@pytest.mark.parametrize("name", WRONG_ALLOCATIONS)
def test_wrong_allocation(name):
    code, message = refusal(allocations=WRONG_ALLOCATIONS[name], thunks=())
    assert code == "INVALID_ARGUMENT", message


@pytest.mark.parametrize(
    "changes",
    [
        {"donatable_parameters": (2,)},
        {"donatable_parameters": (-1,)},
        {"donatable_parameters": (1, 1)},
        {"num_replicas": 0},
        {"num_partitions": -3},
        {"num_replicas": 1 << 32, "num_partitions": 1 << 32},
        {"imports": (("memcpy", 1 << 20),)},
        {"imports": (("memcpy", -8),)},
        {"imports": (("memcpy", 12),)},
        {"code": b""},
        {"parameters": (Value(Shape(dtypes.F32, (-8,))), Value(F32_8))},
        {"parameters": (Value(Shape(dtypes.F32, (1 << 40, 1 << 40))), Value(F32_8))},
    ],
    ids=str,
)
def test_wrong_field(changes):
    code, message = refusal(**changes)
    assert code == "INVALID_ARGUMENT", message


def test_deep_nesting_is_refused():
    thunk = While((), (), Slice(0, 0, 1), 1)
    for _ in range(2001):
        thunk = While((), (thunk,), Slice(0, 0, 1), 1)
    with deep_recursion():
        code, message = refusal(thunks=(thunk,))
    assert code == "INVALID_ARGUMENT"
    assert "nested more than 2000 deep" in message


def test_nested_lists_take_no_more_memory_than_they_hold():
    """Each of 90 nested loops claims as many thunks as the rest of the section has room for."""
    thunk = Kernel(function("add"), (whole(0, 32),) * 40000, 8, 64, 1.0)
    for _ in range(90):
        thunk = While((), (thunk,), Slice(0, 0, 1), 1)
    data = programs.serialize(programs.executable(thunks=(thunk,)))
    one_loop = struct.pack(
        "<IBi", 1, 2, -1
    )  # a list of one thunk, a while without debug information
    assert data.count(one_loop) == 90
    damaged = repair(data.replace(one_loop, struct.pack("<IBi", 30000, 2, -1)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert status(lambda: load(damaged))[0] == "INVALID_ARGUMENT"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10  # KiB


def writable_code() -> set[str]:
    """The addresses of all memory that is writable and executable."""
    with open("/proc/self/maps") as file:
        mappings = [line.split()[:2] for line in file]
    return {address for address, rights in mappings if "w" in rights and "x" in rights}


def test_code_is_not_writable(client, device):
    """The pages are executable and read-only; the import slots were filled before that."""
    before = writable_code()  # oneDNN's, for one, in a process that ran other tests
    executable = load(
        programs.serialize(programs.executable(imports=(("memcpy", function("import_memcpy")),)))
    )
    assert writable_code() <= before
    x = np.ones(8, np.float32)
    np.testing.assert_array_equal(executable.run(device, [x, x])[0], 2 * x)


def test_errors_name_the_field(rich):
    """Both readers do, in the same words."""
    offset, size = struct.unpack_from("<QQ", rich, 32 + 8)
    thunk = artifact.deserialize(rich).thunks[0]
    first = rich.index(
        struct.pack("<Biqq", 0, thunk.debug, thunk.function, thunk.work_count),
        offset,
        offset + size,
    )
    damaged = repair(rich[:first] + b"\x09" + rich[first + 1 :])
    code, message = status(lambda: load(damaged))
    assert (code, message) == (
        "INVALID_ARGUMENT",
        "INVALID_ARGUMENT: artifact: section META: thunks[0]: unknown kind 9",
    )
    kind = rich[:first].rindex(b"\x06\x00\x00\x00device")  # of the result, the last value
    damaged = repair(rich[: kind + 4] + b"\xff" + rich[kind + 5 :])
    message = status(lambda: load(damaged))[1].removeprefix("INVALID_ARGUMENT: ")
    assert message == "artifact: section META: results[0].memory_kind: a string is not UTF-8"
    with pytest.raises(artifact.ArtifactError) as error:
        artifact.deserialize(damaged)
    assert str(error.value) == message
