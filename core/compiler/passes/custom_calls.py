"""Custom calls of linear algebra: LAPACK's routines under the names that frameworks give them.

JAX writes a decomposition for CPUs as a custom call like ``lapack_sgeqrf_ffi``, with column-major matrices; XLA's own
names (``Qr``, ``Eigh``, ``ProductOfElementaryHouseholderReflectors``, ``LuDecomposition``) have row-major ones.
Two passes make library calls of them:

* :func:`lay_out_custom_calls`, early: transposes around each custom call whose arrays are not row-major, and XLA's
  names (and ``tripont.svd``, which stands beside them) become LAPACK's. Simplification then removes transposes that
  meet others.
* :func:`match_custom_calls`, before fusion: what the runtime has becomes a ``library-call``
  (core/runtime/library/lapack_*.cc say what each takes). Eigenvectors of f32 and c64 that nothing reads, as those
  of ``jnp.linalg.eigvalsh``, are not asked for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir import dtypes
from ..ir.errors import of_instruction
from ..ir.hlo import (
    Computation,
    Instruction,
    Module,
    Shape,
    TokenShape,
    TupleShape,
    broadcast,
    constant,
)
from ..ir.moves import transpose
from ..ir.patterns import convert, is_constant, splat
from . import random
from .library.call import library_call
from .library.other import goes_in_lanes
from .rewrite import map_computations, on_mapped, sweep_module

if TYPE_CHECKING:
    from ..targets.costs import Library
    from ..targets.target import Target

_SMALL_FLOATS: Final = frozenset((dtypes.F16, dtypes.BF16))
_LAPACK: Final = re.compile(r"lapack_[sdcz]([a-z0-9]+)_ffi")
# The runtime's name of a routine, where it is not the routine's own: complex matrices have other names.
_NAMES: Final = {"heevd": "syevd", "hetrd": "sytrd", "ungqr": "orgqr", "unmqr": "ormqr"}
_ROUTINES: Final = frozenset(
    (
        "gees",
        "geev",
        "gehrd",
        "geqp3",
        "geqrf",
        "gesdd",
        "gesvd",
        "getrf",
        "gtsv",
        "orgqr",
        "ormqr",
        "potrf",
        "syevd",
        "sytrd",
        "trsm",
    )
)
# Library calls that frontends/jax/linalg.py and JAX's CPU rules ask for by these names.
_OTHERS: Final = {
    "tridiagonal_solve_perturbed_ffi": "tridiagonal-solve-perturbed",
    "tripont.lu_pivots_to_permutation": "lu-pivots-to-permutation",
}
# Routines that take row-major batches of small matrices, and up to which order: matrix_lanes.h's.
_IN_LANES: Final = {"gesdd": 16, "getrf": 64, "geqrf": 64, "orgqr": 64, "syevd": 16}
_SQUARE: Final = frozenset(("gesdd", "syevd"))
# Routines that take row-major matrices whose rows and columns are more: lapack_tiles.h's.
_IN_TILES: Final = {"getrf": 256}
# Floating-point operations for each element of the first operand, times its last dimension.
_WORK: Final = {"gees": 25.0, "geev": 25.0, "gesdd": 20.0, "gesvd": 20.0, "syevd": 9.0}
_WORK_OF_VALUES: Final = 4.0 / 3.0  # of syevd without vectors


def lay_out_custom_calls(module: Module) -> Module:
    """Every custom call with row-major arrays, and XLA's decompositions under LAPACK's names.

    Raises CompileError (UNIMPLEMENTED) for layouts that are not a permutation of the dimensions.
    """
    if not module.has("custom-call"):
        return module
    return sweep_module(module, _lay_out)


def match_custom_calls(module: Module, target: Target) -> Module:
    """Custom calls that the runtime has routines for become library calls; others stay.

    Raises CompileError (UNIMPLEMENTED) for element types that LAPACK does not have.
    """
    if not module.has("custom-call"):
        return module
    module = map_computations(module, _without_unread_vectors)
    library = target.costs.library

    def rule(i: Instruction) -> Instruction | None:
        return _match(i, library)

    return sweep_module(module, rule, repeat=False)


def _without_unread_vectors(computation: Computation) -> Computation:
    """The computation whose calls of syevd compute eigenvalues alone where nothing reads the vectors, in f32 and c64:
    in f64, which the runtime has nothing wider for, the values that come with vectors are more exact.
    """
    users = computation.users()
    alone = {i for i in users if _makes_vectors(i) and not _are_vectors_read(computation, i, users)}
    if not alone:
        return computation
    mapped: dict[Instruction, Instruction] = {}
    output: list[Instruction] = []
    for instruction in computation.instructions:
        now = on_mapped(instruction, mapped)
        if instruction in alone:
            config = {**now.attributes["backend_config"], "mode": ord("N")}
            now = now.replace(attributes={**now.attributes, "backend_config": config})
        if now is not instruction:
            mapped[instruction] = now
        output.append(now)
    root = mapped.get(computation.root, computation.root)
    return Computation(computation.name, computation.parameters, output, root)


def _makes_vectors(i: Instruction) -> bool:
    """Whether ``i`` is a call for eigenvectors of symmetric matrices."""
    if i.opcode != "custom-call" or _routine(i.attributes["custom_call_target"]) != "syevd":
        return False
    a, given = i.operands[0].shape, i.attributes["backend_config"]
    if not isinstance(a, Shape) or a.dtype not in (dtypes.F32, dtypes.C64):
        return False
    return isinstance(given, Mapping) and given.get("mode") == ord("V")


def _are_vectors_read(
    computation: Computation, call: Instruction, users: Mapping[Instruction, list[Instruction]]
) -> bool:
    """Whether something reads the first result of ``call``, or all of them as one."""
    return call is computation.root or any(
        user.opcode != "get-tuple-element" or user.attributes["index"] == 0 for user in users[call]
    )


def _routine(target: str) -> str | None:
    """The library call that does what the custom call ``target`` asks for."""
    found = _LAPACK.fullmatch(target)
    if found is None:
        return _OTHERS.get(target)
    name = _NAMES.get(found[1], found[1])
    return name if name in _ROUTINES else None


def _match(i: Instruction, library: Library) -> Instruction | None:
    if i.opcode != "custom-call":
        return None
    if i.attributes["custom_call_target"] == random.STATE:
        return library_call(i, "rng-state", {}, library.call)
    name = _routine(i.attributes["custom_call_target"])
    if name is None or not i.operands:
        return None
    a = i.operands[0].shape
    if not isinstance(a, Shape):
        return None
    known = ("s32",) if name == "lu-pivots-to-permutation" else ("f32", "f64", "c64", "c128")
    if a.dtype.name not in known:
        raise of_instruction("UNIMPLEMENTED", f"{name} of {a.dtype.name} matrices", i)
    given = i.attributes["backend_config"]
    config: dict[str, Any] = {}
    if isinstance(given, Mapping):
        config = {key: int(value) for key, value in given.items()}
    order = a.dims[-1] if a.dims else 1
    each = _WORK_OF_VALUES if name == "syevd" and config.get("mode") == ord("N") else None
    flops = math.prod(a.dims) * (each or _WORK.get(name, 2.0)) * order
    return library_call(i, name, config, library.call + flops / library.lapack_flops)


# ------------------------------------------------------------------------------------------------------ layouts


def _lay_out(i: Instruction) -> Instruction | None:
    if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
        element: Instruction = i.operands[0].operands[i.attributes["index"]]
        return element
    if _asks_for_a_negative_info(i):
        return splat(constant(np.asarray(True)), i.dims)
    if i.opcode != "custom-call":
        return None
    other = _XLA_NAMES.get(i.attributes["custom_call_target"])
    if other is not None:
        _check_decomposition(i)
        return _of_small_floats(i, other) if _has_small_floats(i.operands) else other(i)
    if "operand_layouts" not in i.attributes and "result_layouts" not in i.attributes:
        return None
    shapes = i.result_shapes
    operand_layouts = i.attributes.get("operand_layouts") or [None] * len(i.operands)
    result_layouts = i.attributes.get("result_layouts") or [None] * len(shapes)
    if len(operand_layouts) != len(i.operands) or len(result_layouts) != len(shapes):
        raise of_instruction("UNIMPLEMENTED", "a layout for each operand and result is needed", i)
    attributes = {
        k: v for k, v in i.attributes.items() if k not in ("operand_layouts", "result_layouts")
    }
    if _takes_rows(i):
        given = attributes.get("backend_config")
        config = dict(given) if isinstance(given, Mapping) else {}
        attributes["backend_config"] = {**config, "row_major": 1}
        return i.replace(attributes=attributes)
    operands = [
        _transposed(o, _order(layout, i), i)
        for o, layout in zip(i.operands, operand_layouts, strict=True)
    ]
    orders = [_order(layout, i) for layout in result_layouts]
    physical = [_permuted(s, order) for s, order in zip(shapes, orders, strict=True)]
    return _call(i, attributes, operands, physical, orders)


def _asks_for_a_negative_info(i: Instruction) -> bool:
    """Whether ``i`` is info >= 0 of an LU: the runtime gives LAPACK no arguments that would make it negative."""
    if i.opcode != "compare" or i.attributes["direction"] != "GE":
        return False
    info, zero = i.operands
    if info.opcode != "get-tuple-element" or info.attributes["index"] != 2:
        return False
    call = info.operands[0]
    if call.opcode != "custom-call" or not is_constant(zero, 0):
        return False
    return _routine(call.attributes["custom_call_target"]) == "getrf"


def _takes_rows(i: Instruction) -> bool:
    """Whether the runtime takes row-major matrices for the column-major ones of the call, as in lanes and in tiles."""
    name = _routine(i.attributes["custom_call_target"])
    if name not in _IN_LANES or not i.operands or not isinstance(i.operands[0].shape, Shape):
        return False
    arrays = [s for s in (*(o.shape for o in i.operands), *i.result_shapes) if isinstance(s, Shape)]
    layouts = (*i.attributes["operand_layouts"], *i.attributes["result_layouts"])
    rank = len(i.operands[0].dims)
    if rank < 2 or len(arrays) != len(layouts) or not _fits_rows(name, i.operands[0]):
        return False
    columns = (*range(rank - 2), rank - 1, rank - 2)
    return all(
        _order(layout, i) == (columns if shape.rank == rank else None)
        for shape, layout in zip(arrays, layouts, strict=True)
    )


def _fits_rows(name: str, matrices: Instruction) -> bool:
    rows, columns = matrices.dims[-2:]
    if name in _IN_TILES and min(rows, columns) > _IN_TILES[name]:
        return True
    if len(matrices.dims) < 3 or not goes_in_lanes(matrices):
        return False
    return max(rows, columns) <= _IN_LANES[name] and (name not in _SQUARE or rows == columns)


def _order(layout: Sequence[int] | None, i: Instruction) -> tuple[int, ...] | None:
    """Major-to-minor order of the dimensions; None: row-major."""
    if layout is None:
        return None
    order = tuple(reversed(layout))
    if sorted(order) != list(range(len(order))):
        raise of_instruction("UNIMPLEMENTED", f"the layout {tuple(layout)}", i)
    return None if order == tuple(range(len(order))) else order


def _permuted(shape: Shape | TokenShape, order: tuple[int, ...] | None) -> Shape | TokenShape:
    if order is None or not isinstance(shape, Shape):
        return shape
    return shape.with_dims(shape.dims[d] for d in order)


def _transposed(value: Instruction, order: tuple[int, ...] | None, i: Instruction) -> Instruction:
    if order is None or not isinstance(value.shape, Shape):
        return value
    return transpose(value, order, i.metadata)


def _call(
    i: Instruction,
    attributes: Mapping[str, Any],
    operands: Sequence[Instruction],
    shapes: Sequence[Shape | TokenShape],
    orders: Sequence[tuple[int, ...] | None],
) -> Instruction:
    """``i`` with other attributes, operands and result shapes; the results are transposed back."""
    whole = isinstance(i.shape, TupleShape)
    shape = TupleShape(tuple(shapes)) if whole else shapes[0]
    call = i.replace(operands=operands, shape=shape, attributes=attributes)
    if not whole:
        return _back(call, orders[0], i)
    results = [
        _back(_element(call, n, s, i), order, i)
        for n, (s, order) in enumerate(zip(shapes, orders, strict=True))
    ]
    return i.derive("tuple", results)


def _element(
    call: Instruction, index: int, shape: Shape | TokenShape, i: Instruction
) -> Instruction:
    return i.derive("get-tuple-element", (call,), {"index": index}, shape=shape)


def _back(value: Instruction, order: tuple[int, ...] | None, i: Instruction) -> Instruction:
    if order is None:
        return value
    inverse = tuple(order.index(d) for d in range(len(order)))
    return _transposed(value, inverse, i)


# ------------------------------------------------------------------------------------------ XLA's decompositions


def _swap(rank: int) -> tuple[int, ...]:
    """Column-major matrices."""
    return (*range(rank - 2), rank - 1, rank - 2)


def _lapack(i: Instruction, routine: str, config: Mapping[str, int]) -> dict[str, Any]:
    letter = {"f32": "s", "f64": "d", "c64": "c", "c128": "z"}.get(i.operands[0].dtype.name)
    if letter is None:
        raise of_instruction("UNIMPLEMENTED", f"a {i.operands[0].dtype.name} matrix", i)
    attributes = {k: v for k, v in i.attributes.items() if not k.endswith("_layouts")}
    return {
        **attributes,
        "custom_call_target": f"lapack_{letter}{routine}_ffi",
        "backend_config": dict(config),
        "output_operand_aliases": (),
    }


# The operands and results of a decomposition.
_NUMBERS: Final = {
    "Eigh": (1, 2),
    "LuDecomposition": (1, 3),
    "ProductOfElementaryHouseholderReflectors": (2, 1),
    "Qr": (1, 2),
    "tripont.svd": (1, 3),
}


def _check_decomposition(i: Instruction) -> None:
    """Raise CompileError INVALID_ARGUMENT if the call has other operands and results than its rule takes apart."""
    name = i.attributes["custom_call_target"]
    operands, results = _NUMBERS[name]
    shapes = [o.shape for o in i.operands]
    are_arrays = all(isinstance(s, Shape) for s in (*shapes, *i.result_shapes))
    numbers = len(shapes), len(i.result_shapes)
    if not are_arrays or numbers != (operands, results) or len(i.operands[0].dims) < 2:
        given = (
            "a matrix" if operands == 1 else f"{operands} operands, of which the first is a matrix"
        )
        made = "one result" if results == 1 else f"{results} results"
        problem = f"{name} takes {given}, or a batch of them, and has {made}"
        raise of_instruction("INVALID_ARGUMENT", problem, i)


def _has_small_floats(values: Sequence[Instruction]) -> bool:
    return any(isinstance(v.shape, Shape) and v.dtype in _SMALL_FLOATS for v in values)


def _of_small_floats(
    i: Instruction, rule: Callable[[Instruction], Instruction | None]
) -> Instruction:
    """What ``rule`` makes of ``i`` in f32, which LAPACK has, rounded to the types of the results."""

    def wide(shape: Shape | TokenShape) -> Shape | TokenShape:
        is_small = isinstance(shape, Shape) and shape.dtype in _SMALL_FLOATS
        return shape.with_dtype(dtypes.F32) if is_small else shape  # type: ignore[union-attr]

    given = i.result_shapes
    shapes = [wide(s) for s in given]
    whole = isinstance(i.shape, TupleShape)
    call = i.replace(
        operands=[convert(o, dtypes.F32) if _has_small_floats([o]) else o for o in i.operands],
        shape=TupleShape(tuple(shapes)) if whole else shapes[0],
    )
    made = rule(call) or call
    if not whole:
        return convert(made, i.dtype)
    results = []
    for n, (shape, narrow) in enumerate(zip(shapes, given, strict=True)):
        result = _element(made, n, shape, i)
        results.append(convert(result, narrow.dtype) if isinstance(narrow, Shape) else result)
    return i.derive("tuple", results)


def _qr(i: Instruction) -> Instruction:
    """a -> (reflectors and R, tau)."""
    a, tau = i.result_shapes
    order = _swap(len(i.operands[0].dims))
    operand = _transposed(i.operands[0], order, i)
    return _call(i, _lapack(i, "geqrf", {}), [operand], [_permuted(a, order), tau], [order, None])


def _householder_product(i: Instruction) -> Instruction:
    """(reflectors, tau) -> Q."""
    order = _swap(len(i.operands[0].dims))
    operands = [_transposed(i.operands[0], order, i), i.operands[1]]
    shapes = [_permuted(s, order) for s in i.result_shapes]
    return _call(i, _lapack(i, "orgqr", {}), operands, shapes, [order])


def _eigh(i: Instruction) -> Instruction | None:
    """a -> (vectors, values). The configuration is the text ``lower,sort,iterations,tolerance``."""
    given = i.attributes["backend_config"]
    text = given.decode() if isinstance(given, bytes) else ""
    lower = not text.startswith("0")
    order = _swap(len(i.operands[0].dims))
    attributes = _lapack(i, "syevd", {"mode": ord("V"), "uplo": ord("L" if lower else "U")})
    a, w = i.result_shapes
    info = Shape(dtypes.S32, i.operands[0].dims[:-2])
    operand = _transposed(i.operands[0], order, i)
    call = i.replace(
        operands=[operand],
        shape=TupleShape((_permuted(a, order), w, info)),
        attributes=attributes,
    )
    vectors = _back(_element(call, 0, _permuted(a, order), i), order, i)
    failed = _element(call, 2, info, i)
    return i.derive(
        "tuple",
        [_unless_failed(vectors, failed, i), _unless_failed(_element(call, 1, w, i), failed, i)],
    )


def _svd(i: Instruction) -> Instruction:
    """a [..., m, n] -> (u [..., m, m or k], singular values [..., k], vh [..., k or n, n]): k is the smaller of m, n.

    The attribute ``mode`` is LAPACK's: ``A`` for all of u and vh, ``S`` for k columns and rows, ``N`` for singular
    values alone (u and vh are undefined). Row-major matrices are the transposes of LAPACK's, of which u is this vh, and
    the other way round: nothing is transposed.
    """
    given = i.attributes["backend_config"]
    mode = given.get("mode") if isinstance(given, Mapping) else None
    results = i.result_shapes
    if mode not in ("A", "S", "N") or len(i.operands) != 1 or len(results) != 3:
        raise of_instruction(
            "INVALID_ARGUMENT",
            "tripont.svd takes one operand and a mode, which is A, S or N, and has three results",
            i,
        )
    (a,) = i.operands
    u, s, vh = results
    if not isinstance(a.shape, Shape) or not _are_singular(a.shape, results, mode):
        raise of_instruction("INVALID_ARGUMENT", "the results of tripont.svd do not fit it", i)
    info = Shape(dtypes.S32, a.dims[:-2])
    rows = _fits_rows("gesdd", a)
    first, last = (u, vh) if rows else (vh, u)
    call = i.replace(
        shape=TupleShape((a.shape, s, first, last, info)),
        attributes=_lapack(i, "gesdd", {"mode": ord(mode), **({"row_major": 1} if rows else {})}),
    )
    failed = _element(call, 4, info, i)
    places = (2, 1, 3) if rows else (3, 1, 2)
    values = [_element(call, n, shape, i) for n, shape in zip(places, results, strict=True)]
    return i.derive("tuple", [_unless_failed(value, failed, i) for value in values])


def _lu(i: Instruction) -> Instruction:
    """a -> (lu, pivots from 0, permutation)."""
    rows = _fits_rows("getrf", i.operands[0])
    order = None if rows else _swap(len(i.operands[0].dims))
    lu, pivots, permutation = i.result_shapes
    assert isinstance(pivots, Shape)
    info = Shape(dtypes.S32, i.operands[0].dims[:-2])
    call = i.replace(
        operands=[_transposed(i.operands[0], order, i)],
        shape=TupleShape((_permuted(lu, order), pivots, info)),
        attributes=_lapack(i, "getrf", {"row_major": 1} if rows else {}),
    )
    one = broadcast(constant(np.asarray(1, np.int32)), pivots.dims)
    zero_based = i.derive("subtract", (_element(call, 1, pivots, i), one), shape=pivots)
    permuted = i.replace(
        operands=[zero_based],
        shape=permutation,
        attributes={
            **_lapack(i, "getrf", {}),
            "custom_call_target": "tripont.lu_pivots_to_permutation",
        },
    )
    results = [_back(_element(call, 0, _permuted(lu, order), i), order, i), zero_based, permuted]
    return i.derive("tuple", results)


def _are_singular(a: Shape, results: Sequence[Shape | TokenShape], mode: str) -> bool:
    """Whether ``results`` are u, singular values and vh of ``a`` as ``mode`` has them."""
    if a.rank < 2:
        return False
    *batch, m, n = a.dims
    k = min(m, n)
    real = a.dtype.component if a.dtype.is_complex else a.dtype
    columns, rows = (m, n) if mode == "A" else (k, k)
    expected = (
        a.with_dims((*batch, m, columns)),
        Shape(real, (*batch, k)),
        a.with_dims((*batch, rows, n)),
    )
    return tuple(results) == expected


def _unless_failed(value: Instruction, info: Instruction, i: Instruction) -> Instruction:
    """NaNs where ``info`` (of the batch dimensions) is not 0."""
    shape = value.shape
    assert isinstance(shape, Shape)
    zero = constant(np.asarray(0, np.int32))
    zeros = broadcast(zero, info.dims) if info.dims else zero
    good = i.derive(
        "compare",
        (info, zeros),
        {"direction": "EQ", "comparison_type": "SIGNED"},
        shape=Shape(dtypes.PRED, info.dims),
    )
    goods = broadcast(good, shape.dims, range(len(info.dims)))
    nan = broadcast(constant(np.asarray(np.nan).astype(shape.dtype.numpy)), shape.dims)
    return i.derive("select", (goods, value, nan), shape=shape)


_XLA_NAMES: Final[dict[str, Callable[[Instruction], Instruction | None]]] = {
    "Eigh": _eigh,
    "LuDecomposition": _lu,
    "ProductOfElementaryHouseholderReflectors": _householder_product,
    "Qr": _qr,
    "tripont.svd": _svd,
}
