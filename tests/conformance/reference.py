"""The judge: StableHLO's reference interpreter, which jaxlib carries.

It evaluates one element at a time with exact integers and correctly rounded floats, and is slow and
literal. For what it does not implement (Fourier transforms, random numbers, linear algebra, division by
zero) it ends the process, so configurations for those bring a judge of their own.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _stablehlo
from tripont.core.compiler.importer import bindings
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Shape

from tests.conformance.programs import tensor

#: Evaluates a module whose arguments are the texts of attributes, and whose results are integers.
Evaluate = Callable[[str, Sequence[str]], list[np.ndarray]]

# A context keeps every attribute that it ever saw, and those of arguments are large: after so many programs it is
# replaced, or a process that judges a hundred thousand would take gigabytes.
_PROGRAMS_OF_A_CONTEXT: Final = 200
_programs = itertools.count(1)


@functools.cache
def context() -> ir.Context:
    context = bindings._new_context()
    _stablehlo.register_interpreter_dialect(context)
    return context


def evaluate(module: str, arguments: Sequence[str]) -> list[np.ndarray]:
    """The results of a module in this process. Raises MLIRError or ValueError for one that the interpreter refuses."""
    with context(), ir.Location.unknown():
        given = [ir.Attribute.parse(a) for a in arguments]
        return [_array(v) for v in _stablehlo.eval_module(ir.Module.parse(module), given)]


def interpret(
    program: str,
    arguments: Sequence[np.ndarray],
    results: Sequence[Shape],
    evaluate: Evaluate = evaluate,
    types: Sequence[str] | None = None,
) -> list[np.ndarray]:
    """What the interpreter says ``main`` gives. ``types``: those of its parameters, if they are known.

    Raises for a program that it refuses.
    """
    if next(_programs) % _PROGRAMS_OF_A_CONTEXT == 0:
        context.cache_clear()
    types = parameter_types(program) if types is None else types
    given = [
        _attribute(a, t)
        for array, kind in zip(arguments, types, strict=True)
        for a, t in _plain_arguments(array, kind)
    ]
    arrays = iter(evaluate(_with_plain_results(program, types, results), given))
    return [_result(arrays, shape) for shape in results]


def parameter_types(program: str) -> list[str]:
    """The types of ``main``'s parameters."""
    with context(), ir.Location.unknown():
        return [str(t) for t in _main_type(program).inputs]


def _main_type(program: str) -> Any:
    for function in ir.Module.parse(program).body.operations:
        if function.attributes["sym_name"].value == "main":
            return function.type
    raise AssertionError("no main")


def _attribute(array: np.ndarray, kind: str) -> str:
    if array.size == 0:
        return f"dense<> : {kind}"
    return f'dense<"0x{array.tobytes().hex().upper()}"> : {kind}'


def _plain_arguments(array: np.ndarray, kind: str) -> list[tuple[np.ndarray, str]]:
    """An argument as arrays that an attribute can hold: a truth value as a byte, a complex number as its parts."""
    if array.dtype == np.bool_:
        return [(array.astype(np.uint8), kind.replace("i1>", "ui8>"))]
    if array.dtype.kind == "c":
        part = kind.replace("complex<f32>", "f32").replace("complex<f64>", "f64")
        return [(array.real.copy(), part), (array.imag.copy(), part)]
    return [(array, kind)]


# Results that Python cannot read from an attribute leave the program as integers.


def _carrier(dtype: DType) -> str:
    if dtype.bits == 6:  # as f32: StableHLO has no integers of six bits
        return "u32"
    if dtype.is_float and dtype.bits >= 8:
        return f"u{dtype.bits}"
    if dtype.kind == "pred" or dtype.bits < 8:
        return "u8" if dtype.kind in ("pred", "uint", "float") else "s8"
    return dtype.name


def _with_plain_results(program: str, types: Sequence[str], results: Sequence[Shape]) -> str:
    """``main`` wrapped in one that gives integers and, for complex results, their parts."""
    inner = program.replace("func.func @main", "func.func private @program").replace(
        "func.func public @main", "func.func private @program"
    )
    names = [f"%v#{i}" for i in range(len(results))] if len(results) > 1 else ["%v"]
    given = [tensor(s.dtype, *s.dims) for s in results]
    left = f"%v:{len(results)}" if len(results) > 1 else "%v"
    arguments = ", ".join(f"%a{i}" for i in range(len(types)))
    lines, parameters = [], []
    for i, kind in enumerate(types):
        if kind.endswith("i1>") and kind[-4] in "<x":
            byte = kind.replace("i1>", "ui8>")
            parameters.append(f"%p{i}: {byte}")
            lines.append(f"%a{i} = stablehlo.convert %p{i} : ({byte}) -> {kind}")
        elif "complex" in kind:
            part = kind.replace("complex<f32>", "f32").replace("complex<f64>", "f64")
            parameters += [f"%p{i}: {part}", f"%q{i}: {part}"]
            lines.append(f"%a{i} = stablehlo.complex %p{i}, %q{i} : {kind}")
        else:
            parameters.append(f"%a{i}: {kind}")
    lines += [
        f"{left} = func.call @program({arguments}) : ({', '.join(types)}) -> ({', '.join(given)})"
    ]
    outputs: list[tuple[str, str]] = []
    for i, (name, shape, kind) in enumerate(zip(names, results, given, strict=True)):
        if shape.dtype.is_complex:
            part = tensor(shape.dtype.component, *shape.dims)
            carrier = tensor(f"u{shape.dtype.component.bits}", *shape.dims)
            for letter in ("real", "imag"):
                lines.append(f"%{letter}{i} = stablehlo.{letter} {name} : ({kind}) -> {part}")
                lines.append(
                    f"%{letter}b{i} = stablehlo.bitcast_convert %{letter}{i} : ({part}) -> {carrier}"
                )
                outputs.append((f"%{letter}b{i}", carrier))
            continue
        carrier = tensor(_carrier(shape.dtype), *shape.dims)
        if carrier == kind:
            outputs.append((name, kind))
            continue
        if shape.dtype.bits == 6:
            wide = tensor(dtypes.F32, *shape.dims)
            lines.append(f"%n{i} = stablehlo.convert {name} : ({kind}) -> {wide}")
            lines.append(f"%c{i} = stablehlo.bitcast_convert %n{i} : ({wide}) -> {carrier}")
            outputs.append((f"%c{i}", carrier))
            continue
        if shape.dtype.is_float and shape.dtype.bits < 8:
            nibble = tensor("u4", *shape.dims)
            lines.append(f"%n{i} = stablehlo.bitcast_convert {name} : ({kind}) -> {nibble}")
            name, kind = f"%n{i}", nibble
        operation = (
            "bitcast_convert" if shape.dtype.is_float and shape.dtype.bits >= 8 else "convert"
        )
        lines.append(f"%c{i} = stablehlo.{operation} {name} : ({kind}) -> {carrier}")
        outputs.append((f"%c{i}", carrier))
    kinds = ", ".join(t for _, t in outputs)
    values = ", ".join(n for n, _ in outputs)
    body = "\n".join(lines)
    return f"{inner}\nfunc.func @main({', '.join(parameters)}) -> ({kinds}) {{\n{body}\nreturn {values} : {kinds}\n}}\n"


def _array(attribute: Any) -> np.ndarray:
    array = np.array(attribute)
    if attribute.is_splat:
        dims = tuple(attribute.type.shape)
        array = np.broadcast_to(array.reshape(-1)[0] if array.size else array, dims)
    return np.ascontiguousarray(array)


def _result(arrays: Any, shape: Shape) -> np.ndarray:
    first = next(arrays)
    dtype = shape.dtype
    if dtype.is_complex:
        parts = [a.view(dtype.component.numpy) for a in (first, next(arrays))]
        return np.stack(parts, -1).view(dtype.numpy).reshape(shape.dims)
    if dtype.bits == 6:
        return np.asarray(first).view(np.float32).astype(dtype.numpy).reshape(shape.dims)
    if dtype.is_float:
        return np.asarray(first).view(dtype.numpy).reshape(shape.dims)
    return np.asarray(first).astype(dtype.numpy).reshape(shape.dims)
