"""Loading executables and running their thunks."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.formats.artifact import (
    ALLOCATION_CONSTANT,
    ALLOCATION_PARAMETER,
    ALLOCATION_RESULT,
    ALLOCATION_TEMP,
    Allocation,
    Conditional,
    Copy,
    DebugInfo,
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
from tests.core.runtime.programs import function, ones, whole
from tests.core.runtime.test_donation import aligned

F32_8 = programs.F32_8
S32 = Shape(dtypes.S32, ())
X = np.arange(8, dtype=np.float32)


def load(program):
    return _tripont.Executable.load(programs.serialize(program))


def run(device, program, *arrays):
    return load(program).run(device, list(arrays))


def test_one_kernel(device):
    (result,) = run(device, programs.executable(), X, X)
    np.testing.assert_array_equal(result, 2 * X)


@pytest.mark.parametrize("grain", [1, 1000, 1 << 14, 1 << 40])
def test_parallel_kernel_covers_every_element_once(device, grain):
    n = 200_003
    x = np.arange(n, dtype=np.float32)
    (result,) = run(device, programs.unary("add_one", n, grain=grain), x)
    np.testing.assert_array_equal(result, x + 1)


def test_imports(device):
    d = Shape(dtypes.F64, (4,))
    program = programs.executable(
        parameters=(Value(d), Value(d)),
        results=(Value(d),),
        thunks=(
            Kernel(function("fmod_kernel"), (whole(0, 32), whole(1, 32), whole(2, 32)), 4, 4, 10.0),
        ),
        imports=(("memcpy", function("import_memcpy")), ("fmod", function("import_fmod"))),
    )
    x, y = np.array([5.5, -5.5, 7, 1]), np.array([2.0, 2, 3, 5])
    (result,) = run(device, program, x, y)
    np.testing.assert_array_equal(result, np.fmod(x, y))


def test_temporaries_constants_and_copies(device):
    # temp = parameter + constant; result = temp (copied)
    program = programs.executable(
        parameters=(Value(F32_8),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, 32),
            Allocation(ALLOCATION_RESULT, 0, 32),
            Allocation(ALLOCATION_CONSTANT, 0, 32, offset=64),
            Allocation(ALLOCATION_TEMP, 0, 192),
        ),
        thunks=(
            Kernel(function("add"), (whole(0, 32), whole(2, 32), Slice(3, 128, 32)), 8, 100, 10.0),
            Copy(whole(1, 32), Slice(3, 128, 32)),
        ),
        constants=bytes(64) + np.full(8, 10, np.float32).tobytes(),
    )
    (result,) = run(device, program, X)
    np.testing.assert_array_equal(result, X + 10)


def loop(trip_count):
    counter, limit, predicate = whole(1, 4), whole(0, 4), Slice(2, 0, 1)
    return programs.executable(
        parameters=(Value(S32),),
        results=(Value(S32),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, 4),
            Allocation(ALLOCATION_RESULT, 0, 4),
            Allocation(ALLOCATION_TEMP, 0, 64),
            Allocation(ALLOCATION_CONSTANT, 0, 4, offset=0),
        ),
        constants=bytes(4),
        thunks=(
            Copy(counter, whole(3, 4)),
            While(
                condition=(Kernel(function("less_than"), (counter, limit, predicate), 1, 1, 1.0),),
                body=(Kernel(function("increment"), (counter,), 1, 1, 1.0),),
                predicate=predicate,
                trip_count=trip_count,
            ),
        ),
    )


@pytest.mark.parametrize("count", [0, 1, 1000])
def test_while(device, count):
    (result,) = run(device, loop(-1), np.int32(count))
    assert result == count


def test_while_with_known_trip_count(device):
    (result,) = run(device, loop(17), np.int32(0))
    assert result == 17


def branch(is_pred):
    selector = Shape(dtypes.PRED if is_pred else dtypes.S32, ())
    size = 1 if is_pred else 4
    names = ("store_7", "store_8")
    return programs.executable(
        parameters=(Value(selector),),
        results=(Value(S32),),
        allocations=(
            Allocation(ALLOCATION_PARAMETER, 0, size),
            Allocation(ALLOCATION_RESULT, 0, 4),
        ),
        thunks=(
            Conditional(
                selector=whole(0, size),
                selector_is_pred=is_pred,
                branches=tuple(
                    (Kernel(function(name), (whole(1, 4),), 1, 1, 1.0),) for name in names
                ),
            ),
        ),
    )


MOST_NESTED = 2000


def nested(depth):
    """``depth`` branches in each other, the innermost of which adds 1 to zero."""
    inner = (Kernel(function("increment"), (whole(1, 4),), 1, 1, 1.0),)
    for _ in range(depth):
        inner = (Conditional(Slice(2, 0, 1), True, (inner, ())),)
    program = loop(-1)
    return replace(
        program,
        allocations=(*program.allocations, Allocation(ALLOCATION_CONSTANT, 0, 1, offset=64)),
        constants=bytes(64) + b"\1",
        thunks=(Copy(whole(1, 4), whole(3, 4)), Copy(Slice(2, 0, 1), Slice(4, 0, 1)), *inner),
    )


@pytest.mark.parametrize("depth", [1, 101, MOST_NESTED])
def test_branches_in_branches(device, depth):
    with deep_recursion():
        program = nested(depth)
        (result,) = run(device, program, np.int32(5))
    assert result == 1


def test_more_nested_than_stacks_allow_is_an_error():
    with deep_recursion():
        data = programs.serialize(nested(MOST_NESTED + 1))
    with pytest.raises(_tripont.StatusError, match="nested more than 2000 deep"):
        _tripont.Executable.load(data)


@pytest.mark.parametrize(("value", "expected"), [(True, 7), (False, 8)])
def test_conditional_on_a_pred(device, value, expected):
    assert run(device, branch(True), np.bool_(value)) == [expected]


@pytest.mark.parametrize(("value", "expected"), [(0, 7), (1, 8), (2, 8), (-1, 8), (2**31 - 1, 8)])
def test_conditional_on_an_index(device, value, expected):
    assert run(device, branch(False), np.int32(value)) == [expected]


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=lambda d: d.name)
def test_every_dtype_goes_in_and_comes_out(device, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype.numpy)
    buffer = _tripont.Buffer.from_array(array, device)
    assert buffer.dtype == dtype.name
    assert buffer.shape == (2, 3)
    result = buffer.numpy()
    assert result.dtype == dtype.numpy
    assert result.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.T,
        lambda a: a[::-1],
        lambda a: a[:, ::2],
        lambda a: np.broadcast_to(a[:1], (5, *a.shape[1:])),
        lambda a: a.transpose(2, 0, 1)[::-1, :, ::-1],
        lambda a: a.transpose(2, 1, 0),
        lambda a: a[:, :, :3].copy().transpose(1, 0, 2),
        lambda a: a[:0],
        lambda a: a[:, 1:2],
    ],
)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.complex64, np.complex128])
def test_strided_arrays(device, view, dtype):
    array = view(np.arange(7 * 6 * 5).reshape(7, 6, 5).astype(dtype))
    np.testing.assert_array_equal(_tripont.Buffer.from_array(array, device).numpy(), array)


@pytest.mark.parametrize("order", [(1, 0, 2), (2, 1, 0), (2, 0, 1), (0, 2, 1)], ids=str)
@pytest.mark.parametrize("dtype", [np.int8, np.float16, np.float32, np.complex64, np.complex128])
def test_transposed_arrays_of_many_tiles(device, order, dtype):
    array = np.arange(67 * 5 * 71).reshape(67, 5, 71).astype(dtype).transpose(order)
    np.testing.assert_array_equal(_tripont.Buffer.from_array(array, device).numpy(), array)


def test_large_strided_array(device):
    array = np.arange(1200 * 1300, dtype=np.float32).reshape(1200, 1300).T
    np.testing.assert_array_equal(_tripont.Buffer.from_array(array, device).numpy(), array)


def test_unsupported_dtype_is_named(device):
    with pytest.raises(TypeError, match="str"):
        _tripont.Buffer.from_array(np.array(["a"]), device)


def test_shared_buffers_of_ml_dtypes(device):
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    assert _tripont.Buffer.from_array(array, device).numpy().dtype == ml_dtypes.bfloat16


def test_wrong_arguments_are_refused(device, client):
    executable = load(programs.executable())
    x = _tripont.Buffer.from_array(X, device)
    code, message = status(lambda: executable.execute(device, [x]))
    assert code == "INVALID_ARGUMENT"
    assert "1 arguments" in message
    y = _tripont.Buffer.from_array(ones(9), device)
    code, message = status(lambda: executable.execute(device, [x, y]))
    assert code == "INVALID_ARGUMENT"
    assert "argument 1 has shape f32[9]" in message
    assert "f32[8]" in message
    z = _tripont.Buffer.from_array(X.astype(np.int32), device)
    assert "s32[8]" in status(lambda: executable.execute(device, [x, z]))[1]
    other = _tripont.Buffer.from_array(X, client.devices[1])
    assert "is on device 1" in status(lambda: executable.execute(device, [x, other]))[1]
    x.delete()
    code, message = status(lambda: executable.execute(device, [x, x]))
    assert code == "INVALID_ARGUMENT"
    assert "has been deleted" in message


def test_second_device(client):
    other = client.devices[1]
    executable = load(programs.executable())
    (result,) = executable.run(other, [X, X])
    np.testing.assert_array_equal(result, 2 * X)
    moved = _tripont.Buffer.from_array(X, client.devices[0]).copy_to(other)
    assert moved.device.id == 1
    np.testing.assert_array_equal(moved.numpy(), X)
    big = np.arange(1 << 18, dtype=np.float32)
    np.testing.assert_array_equal(
        _tripont.Buffer.from_array(big, client.devices[0]).copy_to(other).numpy(), big
    )


def test_memory_kinds(device):
    assert device.memory_kinds == ["device", "pinned_host", "unpinned_host"]
    for kind in device.memory_kinds:
        buffer = _tripont.Buffer.from_array(X, device).copy_to(device, kind)
        assert buffer.memory_kind == kind
        np.testing.assert_array_equal(buffer.numpy(), X)
    program = programs.executable(results=(Value(F32_8, "pinned_host"),))
    x = _tripont.Buffer.from_array(X, device)
    assert load(program).execute(device, [x, x])[0].memory_kind == "pinned_host"


def test_expensive_programs_run_asynchronously(device):
    slow = load(programs.unary("add_one_when_told", 8, cost_ns=1e8))
    fast = load(programs.unary("add_one", 8))
    told = aligned(np.zeros(8, np.float32))
    x = _tripont.testing.external_buffer(device, told, lambda: None)
    (first,) = slow.execute(device, [x])
    assert not first.is_ready
    # Depends on the first: waits for it, in order, although it is cheap.
    (second,) = fast.execute(device, [first])
    assert not second.is_ready
    first.delete()  # its memory must live until the second has read it
    told[0] = 1
    np.testing.assert_array_equal(second.numpy(), told + 2)
    (third,) = fast.execute(device, [x])
    assert third.is_ready or third.wait() is None


def test_memory_of_an_execution_is_given_back(device):
    n = 1 << 20
    executable = load(programs.unary("add_one", n, grain=4096, cost_ns=1e6))
    x = _tripont.Buffer.from_array(ones(n), device)
    before = device.memory_stats()["bytes_in_use"]
    for _ in range(50):
        (y,) = executable.execute(device, [x])
        y.wait()
        del y
    device.synchronize()
    assert device.memory_stats()["bytes_in_use"] == before


def test_errors_of_inputs_reach_the_results(device):
    event = _tripont.testing.Event()
    pending = _tripont.testing.pending_buffer(device, X, event)
    executable = load(programs.executable())
    x = _tripont.Buffer.from_array(X, device)
    (first,) = executable.execute(device, [x, pending])
    (second,) = executable.execute(device, [first, x])
    assert not second.is_ready
    event.set_error(13, "the transfer broke")
    for result in (first, second):
        code, message = status(result.wait)
        assert code == "INTERNAL"
        assert "the transfer broke" in message
    assert status(second.numpy)[1] == "INTERNAL: the transfer broke"
    (fine,) = executable.execute(device, [x, x])
    np.testing.assert_array_equal(fine.numpy(), 2 * X)


def test_pending_inputs_are_awaited(device):
    event = _tripont.testing.Event()
    pending = _tripont.testing.pending_buffer(device, X, event)
    (result,) = load(programs.executable()).execute(device, [pending, pending])
    assert not result.is_ready
    event.set_ready()
    np.testing.assert_array_equal(result.numpy(), 2 * X)


def test_results_too_large_for_memory(device):
    huge = Shape(dtypes.F32, (1 << 43,))
    size = 4 << 43
    program = programs.executable(
        parameters=(),
        results=(Value(huge),),
        allocations=(Allocation(ALLOCATION_RESULT, 0, size),),
        thunks=(),
    )
    code, message = status(lambda: load(program).execute(device, []))
    assert code == "RESOURCE_EXHAUSTED"
    assert "f32[8796093022208]" in message
    program = programs.executable(
        allocations=(*programs.executable().allocations, Allocation(ALLOCATION_TEMP, 0, 1 << 45)),
    )
    code, message = status(lambda: run(device, program, X, X))
    assert code == "RESOURCE_EXHAUSTED"
    assert "temporary arena" in message


def test_unknown_library_call_is_refused_when_loading():
    operand = Operand(whole(0, 32), F32_8)
    program = programs.executable(
        thunks=(LibraryCall("no_such_call", (operand,), (), {}, 1.0, debug=0),),
        debug=(DebugInfo("fusion.3", "jit(f)/sort", "model.py", 42),),
    )
    code, message = status(lambda: load(program))
    assert code == "UNIMPLEMENTED"
    assert "no_such_call" in message
    assert "model.py:42" in message


def test_description(device):
    description = load(programs.in_place(8)).describe()
    assert description["name"] == "double"
    assert description["alias_size"] == 32
    assert description["donatable_parameters"] == [0]
    assert description["parameters"] == [
        {"dtype": "f32", "dimensions": (8,), "memory_kind": "device"}
    ]
    assert description["thunks"].startswith("kernel function=")


def test_executing_is_cheap(device):
    executable = load(programs.executable())
    x = _tripont.Buffer.from_array(X, device)
    best = min(
        _tripont.testing.nanoseconds_per_execution(executable, device, [x, x], 5000)
        for _ in range(5)
    )
    assert best < 2000  # about 100 ns; the bound catches a thread hop or a system call


_NO_COMPILER = """
import sys
for name in ("jax", "jaxlib", "llvmlite", "ml_dtypes"):
    sys.modules[name] = None
import numpy as np
from tripont.core import _tripont
client = _tripont.Client({"prestart_worker": False})
executable = _tripont.Executable.load(open(sys.argv[1], "rb").read())
print(executable.run(client.devices[0], [np.ones(8, np.float32)] * 2)[0].tolist())
"""


def test_runs_without_jaxlib_and_llvmlite(tmp_path):
    path = tmp_path / "add.tripont"
    path.write_bytes(programs.serialize(programs.executable()))
    process = subprocess.run(
        [sys.executable, "-c", _NO_COMPILER, str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert process.stdout.strip() == str([2.0] * 8), process.stderr
