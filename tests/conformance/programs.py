"""StableHLO text for small programs, from dtypes and dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.dtypes import DType

_FLOATS = {"f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64"}


def element(dtype: DType | str) -> str:
    """The MLIR name of an element type: ``i32`` for s32, ``complex<f32>`` for c64."""
    name = dtype if isinstance(dtype, str) else dtype.name
    if name == "pred":
        return "i1"
    if name in ("c64", "c128"):
        return f"complex<{'f32' if name == 'c64' else 'f64'}>"
    if name in _FLOATS:
        return name
    if name[0] == "f":
        return f"f{name[1:].upper()}"
    return f"{'ui' if name[0] == 'u' else 'i'}{name[1:]}"


def tensor(dtype: DType | str, *dims: int) -> str:
    """``tensor<2x3xf32>``."""
    return f"tensor<{''.join(f'{d}x' for d in dims)}{element(dtype)}>"


def function(arguments: Sequence[str], results: Sequence[str], body: str) -> str:
    """A module whose main takes ``%0``, ``%1``, ... of the given types; ``body`` ends before the return.

    The results are ``%r`` or, if several, ``%r#0``, ``%r#1``, ...
    """
    parameters = ", ".join(f"%{i}: {a}" for i, a in enumerate(arguments))
    names = ["%r"] if len(results) == 1 else [f"%r#{i}" for i in range(len(results))]
    signature = ", ".join(results)
    values = f"{', '.join(names)} : " if names else ""
    return f"func.func @main({parameters}) -> ({signature}) {{\n{body}\nreturn {values}{signature}\n}}\n"


def combine(op: str, dtype: DType | str) -> str:
    """A reduction's body, with StableHLO's ``op`` on two scalars."""
    t = tensor(dtype)
    return f"{{\n^bb0(%a: {t}, %b: {t}):\n%c = stablehlo.{op} %a, %b : {t}\nstablehlo.return %c : {t}\n}}"


def dense(values: Sequence[object]) -> str:
    """``array<i64: 1, 2>``."""
    return f"array<i64{': ' if values else ''}{', '.join(map(str, values))}>"


ALL = dtypes.ALL
INTEGERS = tuple(d for d in ALL if d.is_integer)
WIDE_INTEGERS = tuple(d for d in INTEGERS if d.bits >= 8)
FLOATS = tuple(d for d in ALL if d.is_float)
WIDE_FLOATS = (dtypes.F16, dtypes.BF16, dtypes.F32, dtypes.F64)
COMPLEX = (dtypes.C64, dtypes.C128)
