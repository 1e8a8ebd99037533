"""Whether this machine computes right, and how fast: products, convolutions, sums and sorts in every element type.

One program with all of them is compiled and run by the runtime of this process, on small whole numbers, so that each
result is exact in each type. No framework is imported. ``tripont doctor`` runs :func:`main` in a process of its own.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

Array = np.ndarray[Any, Any]


def _sum_type(dtype: DType) -> DType:
    """The type of products and convolutions."""
    if dtype.is_complex or dtype is dtypes.PRED or dtype.bits >= (16 if dtype.is_float else 32):
        return dtype
    return dtypes.F32 if dtype.is_float else dtypes.S32


# StableHLO's name of every element type of a parameter -> NumPy's type, and the type of products and convolutions.
TYPES: Final = {d.mlir: (d.numpy, _sum_type(d).mlir) for d in dtypes.ALL}
# Past the sizes from which products and convolutions are library calls.
M, K, N = 96, 80, 88
IMAGE, KERNEL, CONVOLVED = (2, 12, 12, 8), (3, 3, 8, 8), (2, 10, 10, 8)
# Rows that are added up: floats of up to 8 bits hold all sums of so many numbers -1, 0 and 1.
FEW = 4
# SYCL devices without 64-bit floats refuse these types.
WIDE: Final = ("f64", "complex<f64>")
# Its numbers are powers of two, without zero and signs: a sum is seldom one of them.
POWERS: Final = "f8E8M0FNU"


def _tensor(dims: tuple[int, ...], element: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in dims)}{element}>"


def _operations(t: str, wide: str, n: int) -> tuple[list[str], list[str], list[str]]:
    """Lines of the program for one element type, its arguments' types and (name: type) of its results."""
    a, b = _tensor((M, K), t), _tensor((K, N), t)
    i, w = _tensor(IMAGE, t), _tensor(KERNEL, t)
    product, convolved, row = _tensor((M, N), wide), _tensor(CONVOLVED, wide), _tensor((K,), t)
    lines = [
        f"%p{n} = stablehlo.dot_general %a{n}, %b{n}, contracting_dims = [1] x [0] : ({a}, {b}) -> {product}",
        f"%c{n} = stablehlo.convolution(%i{n}, %w{n}) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], "
        f"window = {{}} {{batch_group_count = 1 : i64, feature_group_count = 1 : i64}} : ({i}, {w}) -> {convolved}",
    ]
    results = [f"%p{n}: {product}", f"%c{n}: {convolved}"]
    if t != POWERS:
        rows = _summed_rows(t)
        part = _tensor((rows, K), t)
        zero = "(0.0, 0.0)" if t.startswith("complex") else "0.0" if "f" in t else "0"
        add = "or" if t == "i1" else "add"
        lines += [
            f"%r{n} = stablehlo.slice %a{n} [0:{rows}, 0:{K}] : ({a}) -> {part}",
            f"%z{n} = stablehlo.constant dense<{zero}> : tensor<{t}>",
            f"%s{n} = stablehlo.reduce(%r{n} init: %z{n}) applies stablehlo.{add} across dimensions = [0] : "
            f"({part}, tensor<{t}>) -> {row}",
        ]
        results.append(f"%s{n}: {row}")
    lines += [
        f'%o{n} = "stablehlo.sort"(%a{n}) ({{ ^bb0(%x: tensor<{t}>, %y: tensor<{t}>):',
        *_less(t),
        f"  stablehlo.return %l : tensor<i1> }}) {{dimension = 0 : i64, is_stable = true}} : ({a}) -> {a}",
    ]
    results.append(f"%o{n}: {a}")
    return lines, [f"%a{n}: {a}", f"%b{n}: {b}", f"%i{n}: {i}", f"%w{n}: {w}"], results


def _summed_rows(t: str) -> int:
    return FEW if t.startswith(("f4", "f6", "f8")) else M


def _less(t: str) -> list[str]:
    """Lines that set ``%l`` to whether ``%x`` is less than ``%y``; the real parts of complex numbers are compared."""
    if t.startswith("complex"):
        part = t.removeprefix("complex<").removesuffix(">")
        lines = [f"  %{v}r = stablehlo.real %{v} : (tensor<{t}>) -> tensor<{part}>" for v in "xy"]
        compared = f"%xr, %yr, FLOAT : (tensor<{part}>, tensor<{part}>)"
        return [*lines, f"  %l = stablehlo.compare LT, {compared} -> tensor<i1>"]
    order = "FLOAT" if "f" in t else "UNSIGNED" if t.startswith("u") or t == "i1" else "SIGNED"
    return [
        f"  %l = stablehlo.compare LT, %x, %y, {order} : (tensor<{t}>, tensor<{t}>) -> tensor<i1>"
    ]


def _values(t: str, whole: Array) -> Array:
    """Numbers of type ``t`` for the numbers -1, 0 and 1 of ``whole``."""
    if t == POWERS:
        return np.exp2(whole)
    return abs(whole) if t.startswith("u") or t == "i1" else whole


def _wrapped(t: str, sums: Array) -> Array:
    """Sums in type ``t``: truth values, or numbers of 2 and 4 bits modulo 4 and 16. Wider types hold these sums."""
    if t == "i1":
        return sums > 0
    if t in ("i2", "i4", "ui2", "ui4"):
        modulus = 1 << int(t[-1])
        lowest = 0 if t.startswith("u") else -modulus // 2
        return (sums - lowest) % modulus + lowest
    return sums


def types_of(client: Any) -> tuple[list[str], list[str]]:
    """The element types that the client's device computes with, and the results among them that are wrong."""
    from tripont.core import _tripont

    try:
        return list(TYPES), wrong_results(client, list(TYPES))
    except _tripont.StatusError as error:
        if error.code != "UNIMPLEMENTED" or "64-bit floats" not in str(error):
            raise
    narrow = [t for t in TYPES if t not in WIDE]
    return narrow, wrong_results(client, narrow)


def wrong_results(client: Any, types: list[str]) -> list[str]:
    """The operations and element types with a wrong number, as "product of f32"."""
    rng = np.random.default_rng(0)
    whole = [rng.integers(-1, 2, dims) for dims in ((M, K), (K, N), IMAGE, KERNEL)]
    body: list[str] = []
    parameters: list[str] = []
    results: list[str] = []
    arguments: list[Array] = []
    expected: list[tuple[str, Array]] = []
    for n, t in enumerate(types):
        dtype, wide = TYPES[t]
        lines, given, named = _operations(t, wide, n)
        body += lines
        parameters += given
        results += named
        values = [_values(t, v) for v in whole]
        arguments += [v.astype(dtype) for v in values]
        a, b, image, kernel = values
        windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
        wanted = {
            "p": ("product", _wrapped(wide, a @ b)),
            "c": ("convolution", _wrapped(wide, np.einsum("bhwcij,ijco->bhwo", windows, kernel))),
            "s": ("sum", _wrapped(t, a[: _summed_rows(t)].sum(0))),
            "o": ("sort", np.sort(a, 0)),
        }
        for name in named:
            operation, value = wanted[name[1]]
            expected.append((f"{operation} of {t}", value))
    names = ", ".join(r.partition(": ")[0] for r in results)
    kinds = ", ".join(r.partition(": ")[2] for r in results)
    program = f"func.func @main({', '.join(parameters)}) -> ({kinds}) {{\n" + "\n".join(body)
    program += f"\nreturn {names} : {kinds}\n}}"
    artifact, _ = client.compile(program.encode())
    got = client.load(artifact).run(client.devices[0], arguments)
    wrong = []
    for (what, want), result in zip(expected, got, strict=True):
        value = np.asarray(result)
        value = value if value.dtype.kind == "c" else value.astype(np.float64)
        if not np.array_equal(value, want):
            wrong.append(what)
    return wrong


def best_seconds(function: Callable[[], Any], budget: float = 0.08) -> float:
    """The least time of a call, of as many as fit into ``budget`` seconds (at least three)."""
    best, end = float("inf"), time.perf_counter() + budget
    calls = 0
    while calls < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
        calls += 1
    return best


def speeds(client: Any) -> dict[str, float]:
    """GFLOP/s of products by element type, GB/s of adding two arrays, and what the machine could: "peak"."""
    found = {f"{t} product": _product_speed(client, t) for t in ("f32", "bf16", "i8")}
    found["f32 peak"] = peak_flops(os.cpu_count() or 1) / 1e9
    found["sum of arrays"], found["copy peak"] = _memory_speeds(client)
    return found


def _product_speed(client: Any, t: str, size: int = 512) -> float:
    dtype, wide = TYPES[t]
    x, product = _tensor((size, size), t), _tensor((size, size), wide)
    program = f"""func.func @main(%x: {x}, %y: {x}) -> {product} {{
      %p = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : ({x}, {x}) -> {product}
      return %p : {product}
    }}"""
    ones = np.ones((size, size), dtype)
    return 2.0 * size**3 / _seconds(client, program, [ones, ones]) / 1e9


def _memory_speeds(client: Any, elements: int = 1 << 23) -> tuple[float, float]:
    """GB/s read and written: of a program that adds two arrays, and of the threads' own copies of them."""
    x = _tensor((elements,), "f32")
    program = f"""func.func @main(%x: {x}, %y: {x}) -> {x} {{
      %z = stablehlo.add %x, %y : {x}
      return %z : {x}
    }}"""
    a, b = np.ones(elements, np.float32), np.zeros(elements, np.float32)
    ours = 3 * a.nbytes / _seconds(client, program, [a, b]) / 1e9
    parts = os.cpu_count() or 1
    halves = list(zip(np.array_split(a, parts), np.array_split(b, parts), strict=True))
    times = 8  # starting a thread takes as long as its part of one copy where there are many

    def copies(n: int) -> None:
        for _ in range(times):
            np.copyto(halves[n][1], halves[n][0])

    copy = best_seconds(lambda: _in_threads(parts, copies)) / times
    return ours, 2 * a.nbytes / copy / 1e9


def _seconds(client: Any, program: str, arguments: list[Array]) -> float:
    from tripont.core import _tripont

    device = client.devices[0]
    artifact, _ = client.compile(program.encode())
    executable = client.load(artifact)
    buffers = [_tripont.Buffer.from_array(a, device) for a in arguments]

    def call() -> None:
        for result in executable.execute(device, buffers):
            result.wait()

    return best_seconds(call)


def _in_threads(count: int, function: Callable[[int], Any]) -> None:
    threads = [threading.Thread(target=function, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def peak_flops(threads: int, rounds: int = 1 << 15, budget: float = 0.06) -> float:
    """The f32 operations a second that ``threads`` threads reach with multiply-adds on registers alone, measured.

    Each thread takes the least time of many calls, of less than a tenth of a millisecond, while the others do the same:
    so it is right beside other work too. The vectors and the instructions are those of the CPU that programs are
    compiled for.
    """
    import ctypes

    import llvmlite.binding as llvm

    from tripont.core.compiler.targets.host import for_cpu

    target = for_cpu(os.environ.get("TRIPONT_CPU") or "host")
    lanes, chains = target.vector_bytes // 4, 12  # enough chains to hide the latency of two units
    vector = f"<{lanes} x float>"
    lines = ["define void @peak(i64 %n, ptr %out) " + target.function_attributes + " {", "entry:"]
    lines += ["  br label %loop", "loop:"]
    lines.append("  %i = phi i64 [0, %entry], [%j, %loop]")
    for c in range(chains):
        lines.append(f"  %a{c} = phi {vector} [zeroinitializer, %entry], [%b{c}, %loop]")
    half = "splat (float 0.5)"
    fused = target.has("fma") or not target.is_x86
    for c in range(chains):
        if fused:
            name = f"llvm.fma.v{lanes}f32"
            operands = f"{vector} %a{c}, {vector} {half}, {vector} {half}"
            lines.append(f"  %b{c} = call {vector} @{name}({operands})")
        else:
            lines.append(f"  %m{c} = fmul {vector} %a{c}, {half}")
            lines.append(f"  %b{c} = fadd {vector} %m{c}, {half}")
    lines += ["  %j = add i64 %i, 1", "  %more = icmp ult i64 %j, %n"]
    lines += ["  br i1 %more, label %loop, label %done", "done:"]
    for c in range(chains):
        at = f"  %p{c} = getelementptr {vector}, ptr %out, i64 {c}"
        lines += [at, f"  store {vector} %b{c}, ptr %p{c}, align 4"]
    lines += ["  ret void", "}"]
    if fused:
        lines.append(f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})")
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu="x86-64" if target.is_x86 else "generic",
        features=",".join(f"+{f}" for f in target.features),
        opt=2,
        jit=True,
    )
    with llvm.create_mcjit_compiler(llvm.parse_assembly("\n".join(lines)), machine) as engine:
        engine.finalize_object()
        address = engine.get_function_address("peak")
        function = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(address)
        outs = [(ctypes.c_float * (lanes * chains))() for _ in range(threads)]
        best = [0.0] * threads

        def work(n: int) -> None:
            out = ctypes.addressof(outs[n])
            best[n] = best_seconds(lambda: function(rounds, out), budget)

        _in_threads(threads, work)
    return sum(2.0 * lanes * chains * rounds / seconds for seconds in best)


def kernels() -> list[str]:
    """What computes large products and convolutions on this CPU, as the compiler's tables say, in words."""
    from tripont.core.compiler.ir import hlo
    from tripont.core.compiler.passes.library.convolution_costs import prefers_generated
    from tripont.core.compiler.passes.library.gemm import form_of, way_of
    from tripont.core.compiler.targets.host import for_cpu

    from .machine import default_cpu, has_onednn

    target = for_cpu(default_cpu(), has_onednn())
    told = [f"vectors of {target.vector_bytes} bytes"]
    f32, bf16, s8, s32 = dtypes.F32, dtypes.BF16, dtypes.S8, dtypes.S32
    numbers = hlo.DotDimensionNumbers((1,), (0,))
    for given, result in ((f32, f32), (bf16, bf16), (s8, s32)):
        operands = [hlo.parameter(n, hlo.Shape(given, (1024, 1024))) for n in range(2)]
        shape = hlo.Shape(result, (1024, 1024))
        dot = hlo.Instruction("dot", shape, operands, {"dimension_numbers": numbers})
        by = "generated code"
        if form_of(dot, target) is None and (chosen := way_of(dot, target)) is not None:
            as_they_are = chosen.types == (given, given, result)
            by = "oneDNN" if as_they_are else f"oneDNN in {chosen.types[0].name}"
        told.append(f"{given.name} products by {by}")
    for given, result in ((f32, f32), (bf16, bf16), (s8, s32)):
        generated = prefers_generated(_convolution(given, result), target)
        told.append(f"{given.name} convolutions by {'generated code' if generated else 'oneDNN'}")
    return told


def _convolution(given: Any, result: Any) -> Any:
    """A convolution of ``given`` to ``result``, 3x3 of 128 features, features last."""
    from tripont.core.compiler.ir import hlo

    numbers = hlo.ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))
    dims = ((1, 64, 64, 128), (3, 3, 128, 128))
    operands = [hlo.parameter(n, hlo.Shape(given, d)) for n, d in enumerate(dims)]
    attributes = {
        "window": (hlo.WindowDimension(3, 1, 1, 1),) * 2,
        "dimension_numbers": numbers,
        "feature_group_count": 1,
        "batch_group_count": 1,
    }
    return hlo.Instruction("convolution", hlo.Shape(result, dims[0]), operands, attributes)


def main() -> None:
    """Print a JSON object: what is wrong, the speeds, and how many seconds it took to find out."""
    from tripont.core import _tripont

    start = time.perf_counter()
    client = _tripont.Client({"cache": False})
    types, wrong = types_of(client)
    answer: dict[str, Any] = {
        "wrong": wrong,
        "cpu": _tripont.cpu_name(),
        "types": len(types),
        "without": [t for t in TYPES if t not in types],
    }
    answer["kernels"] = kernels() if client.devices[0].target == "host" else []
    answer["speeds"] = speeds(client)
    answer["seconds"] = time.perf_counter() - start
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
