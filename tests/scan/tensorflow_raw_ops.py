"""Every op of ``tf.raw_ops`` that has a kernel for XPU, in all types, with special numbers, wrong shapes, indices and
attributes. Calls are made of the op's definition, and of a row where that does not say enough (:mod:`.raw_op_rows`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import ml_dtypes
import numpy as np
import tensorflow as tf

from tests.scan.arguments import normal, others, positive
from tests.scan.call import Call
from tests.scan.judge import Outcome
from tests.scan.raw_op_numbers import begun_with_special, combined, converted, is_float
from tests.scan.raw_op_registry import RawOp, raw_ops
from tests.scan.raw_op_row import Made, Row
from tests.scan.raw_op_rows import LEFT_OUT, ROWS
from tests.scan.tensorflow_ways import Stored, compute

_ENDS: Final = (2**31 - 1, -(2**31))
_INDICES: Final = (0, 1, 2, 7, -1, -7, *_ENDS)
_WIDE: Final = {
    "float32": "float64",
    "complex64": "complex128",
    "float16": "float64",
    "bfloat16": "float64",
}
# They move data and add it, or make numbers of it.
_COMPUTES: Final = frozenset(
    (
        "Einsum",
        "MirrorPadGrad",
        "ScatterNd",
        "TensorScatterAdd",
        "TensorScatterSub",
        "XlaReduceScatter",
    )
)
_SHARED: Final = ", shared"


@dataclass(frozen=True)
class Leaf:
    """An array of a call's arguments: ``argument`` is the name of the op's input that it belongs to."""

    name: str
    argument: str
    array: np.ndarray


@dataclass(frozen=True)
class Variant:
    """Arguments of an op: ``row`` with other arrays."""

    op: RawOp
    row: Row
    leaves: tuple[Leaf, ...]
    attributes: Mapping[str, Any]

    def with_arrays(self, of: Callable[[Leaf], np.ndarray]) -> Variant:
        return replace(self, leaves=tuple(replace(leaf, array=of(leaf)) for leaf in self.leaves))

    def with_all(self, arrays: Sequence[np.ndarray]) -> Variant:
        given = iter(arrays)
        return self.with_arrays(lambda leaf: next(given))

    def with_array(self, place: int, array: np.ndarray) -> Variant:
        leaves = list(self.leaves)
        leaves[place] = replace(leaves[place], array=array)
        return replace(self, leaves=tuple(leaves))

    def with_attribute(self, name: str, value: Any) -> Variant:
        return replace(self, attributes={**self.attributes, name: value})

    def arguments(self) -> list[Any]:
        """The arrays, in order; those of variables are :class:`Stored`."""
        stored = list(_stored(self.row.inputs))
        return [
            Stored(leaf.array) if is_stored else leaf.array
            for leaf, is_stored in zip(self.leaves, stored, strict=True)
        ]

    def compute(self, device: str, way: str) -> Outcome:
        return compute(self._call, self.arguments(), device, way)

    def _call(self, *given: Any) -> Any:
        left = iter(given)

        def built(tree: Any) -> Any:
            if isinstance(tree, Made):
                return tree.function(*[next(left) for _ in tree.arrays])
            if isinstance(tree, list):
                return [built(t) for t in tree]
            value = next(left)
            return value.handle if isinstance(value, tf.Variable) else value

        inputs = [built(tree) for tree in self.row.inputs]
        if self.row.function is not None:
            results = self.row.function(*inputs, **self.attributes)
        else:
            by_name = {**dict(zip(self.op.inputs, inputs, strict=True)), **self.attributes}
            renamed = self.op.python_names
            results = self.op.python(**{renamed.get(n, n): x for n, x in by_name.items()})
        results = tf.nest.flatten(results)[: self.row.kept]
        results = [y for y in results if isinstance(y, tf.Tensor)]
        variables = [v.read_value() for v in given if isinstance(v, tf.Variable)]
        return [self._read(y) for y in results if y.dtype != tf.resource], variables

    def _read(self, result: Any) -> Any:
        """A list of tensors as one."""
        if result.dtype != tf.variant:
            return result
        elements = self.attributes.get("element_dtype")
        if elements is None:
            dtypes = [leaf.array.dtype for leaf in self.leaves]
            elements = next((d for d in dtypes if is_float(d)), dtypes[0])
        size = tf.raw_ops.TensorListLength(input_handle=result)
        shape = tf.raw_ops.TensorListElementShape(input_handle=result, shape_type=tf.int32)
        return size, tf.raw_ops.TensorListStack(
            input_handle=result, element_shape=shape, element_dtype=elements
        )


def _stored(inputs: Sequence[Any]) -> Iterator[bool]:
    for tree in inputs:
        if isinstance(tree, list):
            yield from _stored(tree)
        elif isinstance(tree, Made):
            yield from (False for _ in tree.arrays)
        else:
            yield isinstance(tree, Stored)


def _leaves(name: str, argument: str, tree: Any) -> Iterator[Leaf]:
    if isinstance(tree, (list, Made)):
        parts = tree.arrays if isinstance(tree, Made) else tree
        for place, part in enumerate(parts):
            yield from _leaves(f"{name}.{place}" if len(parts) > 1 else name, argument, part)
    else:
        yield Leaf(name, argument, tree.array if isinstance(tree, Stored) else tree)


def _first(op: RawOp, row: Row) -> Variant:
    names = (
        list(op.inputs)
        if row.function is None
        else [f"argument {n}" for n in range(len(row.inputs))]
    )
    leaves = [
        leaf
        for name, tree in zip(names, row.inputs, strict=True)
        for leaf in _leaves(name, name, tree)
    ]
    return Variant(op, row, tuple(leaves), row.attributes)


def rows_of(op: RawOp) -> list[Row]:
    """Arguments that the op takes: those of the table, and otherwise what the definition says."""
    if op.name in ROWS:
        return ROWS[op.name]
    if op.name.startswith(_STEPS):  # of variables like its gradient, and of numbers that say how
        rows = op.name.startswith("ResourceSparseApply")
        inputs = [_of_apply(a, rows) for a in op.definition.input_arg]
        return [Row(inputs)]
    required = {a.name: a for a in op.attributes.values() if not a.HasField("default_value")}
    attributes = {
        name: op.types(name)[0] if a.type == "type" else max(1, a.minimum)
        for name, a in required.items()
        if a.type in ("type", "int")
    }
    return [Row([_derived(op, place) for place in range(len(op.inputs))], attributes)]


# The steps of optimizers, of whole variables and of some of their rows.
_STEPS: Final = ("ResourceApply", "ResourceSparseApply")


def _of_apply(argument: Any, rows: bool) -> Any:
    if argument.name == "indices":
        return np.array([2, 0], np.int32)
    if argument.type == tf.resource.as_datatype_enum:
        return Stored(positive(3, 37, seed=len(argument.name)))
    if argument.name in ("grad", "delta"):
        return normal(2, 37) if rows else normal(3, 37)
    if argument.type == tf.int64.as_datatype_enum:
        return np.array(3, np.int64)
    return np.array(0.05 * len(argument.name), np.float32)


def _is_index(op: RawOp, argument: str) -> bool:
    """Whether an input is of whole numbers alone, and others are not."""
    if argument not in op.inputs:
        return False
    types = [set(_types_of(op, name)) for name in op.inputs]
    own = set(_types_of(op, argument))
    return own <= {tf.int16, tf.int32, tf.int64} and any(not t <= own for t in types)


def _types_of(op: RawOp, argument: str) -> list[tf.DType]:
    of = op.inputs[argument]
    return op.types(of.type_attr) if of.type_attr else [tf.as_dtype(of.type)]


def _derived(op: RawOp, place: int) -> np.ndarray | Stored:
    name = list(op.inputs)[place]
    if _is_index(op, name):
        return np.array([1], np.int32)
    types = _types_of(op, name)
    base = normal(3, 37, seed=place)
    if types == [tf.resource]:
        return Stored(base)
    preferred = [t for t in (tf.float32, tf.complex64, tf.int32, tf.bool) if t in types]
    return converted(base, (preferred or types)[0].as_numpy_dtype)


def _type_attributes(op: RawOp) -> list[str]:
    return [a.name for a in op.definition.attr if a.type == "type"]


def _in_type(variant: Variant, attribute: str, old: Any, new: Any) -> Variant:
    """With ``new`` in the place of ``old`` for an attribute that is a type."""

    def other(leaf: Leaf) -> np.ndarray:
        of = variant.op.inputs.get(leaf.argument)
        given = of is not None and of.type_attr == attribute
        # Variables, lists and arguments of functions have no type attribute of their own.
        free = (
            of is None or of.type in (tf.resource.as_datatype_enum, tf.variant.as_datatype_enum)
        ) and (attribute in ("T", "dtype", "element_dtype") and leaf.array.dtype == old)
        return converted(leaf.array, new) if given or free else leaf.array

    changed = variant.with_arrays(other)
    if attribute in variant.attributes:
        changed = changed.with_attribute(attribute, tf.as_dtype(new))
    return changed


def _base_type(variant: Variant, attribute: str) -> Any:
    """What a type attribute is now, as a NumPy type; None where neither an argument nor an attribute says it."""
    if attribute in variant.attributes:
        return tf.as_dtype(variant.attributes[attribute]).as_numpy_dtype
    for leaf in variant.leaves:
        of = variant.op.inputs.get(leaf.argument)
        if of is not None and of.type_attr == attribute:
            return leaf.array.dtype.type
    floats = [leaf.array.dtype.type for leaf in variant.leaves if is_float(leaf.array.dtype)]
    return floats[0] if floats and attribute in ("T", "dtype", "element_dtype") else None


def _in_types(variant: Variant) -> Iterator[tuple[str, Variant]]:
    """In each other type, with ordinary and with special numbers."""
    op = variant.op
    if op.name == "Cast":
        yield from _casts(variant)
        return
    for attribute in _type_attributes(op):
        old = _base_type(variant, attribute)
        for new in op.types(attribute):
            name = f"{attribute} {new.name}"
            if old is None and attribute in op.attributes:
                yield name, variant.with_attribute(attribute, new)
            elif old is not None and new.as_numpy_dtype != old:
                changed = _in_type(variant, attribute, old, new.as_numpy_dtype)
                special = [] if attribute in op.attributes else list(_special(changed))
                if not special or not _moves_data(op):
                    yield name, changed
                for what, numbers in special:
                    yield f"{name} {what}", numbers


def _casts(variant: Variant) -> Iterator[tuple[str, Variant]]:
    for old in variant.op.types("SrcT"):
        changed = _in_type(variant, "SrcT", np.float32, old.as_numpy_dtype)
        for new in variant.op.types("DstT"):
            for what, numbers in _special(changed.with_attribute("DstT", new)):
                yield f"{old.name} to {new.name} {what}", numbers


def _is_derived(variant: Variant) -> bool:
    """Whether the op computes each element of arrays by itself, as far as its definition tells."""
    op = variant.op
    return (
        op.name not in ROWS
        and not op.name.startswith(_STEPS)
        and bool(variant.leaves)
        and not any(_is_index(op, name) for name in op.inputs)
    )


def _special(variant: Variant) -> Iterator[tuple[str, Variant]]:
    """With special numbers in the place of data."""
    if _is_derived(variant) or variant.op.name == "Cast":
        dtypes = [leaf.array.dtype for leaf in variant.leaves]
        whole = len(dtypes) > 1 and any(d.kind in "iu" for d in dtypes)
        for what, nonzero in (("special", False), ("nonzero special", True))[: 1 + whole]:
            yield what, variant.with_all(combined(dtypes, nonzero))
    elif any(_is_data(variant, leaf) for leaf in variant.leaves):

        def special(leaf: Leaf) -> np.ndarray:
            return begun_with_special(leaf.array) if _is_data(variant, leaf) else leaf.array

        yield "special", variant.with_arrays(special)


def _is_data(variant: Variant, leaf: Leaf) -> bool:
    """Whether a leaf has numbers of any size, and not places or sizes."""
    if leaf.array.dtype.kind in "fc" or is_float(leaf.array.dtype):
        return True
    of = variant.op.inputs.get(leaf.argument)
    return of is not None and bool(of.type_attr) and tf.float32 in variant.op.types(of.type_attr)


def _resized(variant: Variant) -> Iterator[tuple[str, Variant]]:
    """With all arrays in other sizes."""
    arrays = [leaf.array for leaf in variant.leaves]
    if _is_derived(variant):
        for shape in ((), (1,), (0,), (2, 0, 3), (2, 1, 3, 1, 2, 1, 2), (70_003,)):
            yield f"all of {list(shape)}", variant.with_all([np.resize(a, shape) for a in arrays])
        return
    for size in sorted({n for a in arrays for n in a.shape if n > 1}):
        for other in (0, 1, 67):
            shapes = [[other if n == size else n for n in a.shape] for a in arrays]
            resized = [np.resize(a, s) for a, s in zip(arrays, shapes, strict=True)]
            yield f"{other} for {size}", variant.with_all(resized)


def _other_leaves(variant: Variant) -> Iterator[tuple[str, Variant]]:
    """With one array of another shape, or with other indices and sizes."""
    for place, leaf in enumerate(variant.leaves):
        array = leaf.array
        for what, other in others(array):
            if not what.startswith(("of -", "of 2")):
                yield f"{leaf.name} {what}", variant.with_array(place, other)
        if array.dtype.kind not in "iu" or _is_data(variant, leaf):
            continue
        ends = (2**63 - 1, -(2**63)) if array.dtype == np.int64 else ()
        for number in (*_INDICES, *ends):
            if not ml_dtypes.iinfo(array.dtype).min <= number <= ml_dtypes.iinfo(array.dtype).max:
                continue
            yield f"{leaf.name} of {number}", variant.with_array(place, np.full_like(array, number))
            if array.size > 1:
                some = array.copy()
                some.flat[0] = number
                yield f"{leaf.name} first {number}", variant.with_array(place, some)


def _other_lists(variant: Variant) -> Iterator[tuple[str, Variant]]:
    """With fewer elements in lists of arrays."""
    for place, tree in enumerate(variant.row.inputs):
        if isinstance(tree, list):
            for what, fewer in (("one", tree[:1]), ("twenty", (tree * 20)[:20])):
                inputs = [fewer if n == place else t for n, t in enumerate(variant.row.inputs)]
                yield (
                    f"{what} of {list(variant.op.inputs)[place]}",
                    _first(variant.op, replace(variant.row, inputs=inputs)),
                )


def _default(attribute: Any) -> Any:
    value = attribute.default_value
    kind = value.WhichOneof("value")
    if kind == "list":
        return [x for f in ("i", "f", "b") for x in getattr(value.list, f)]
    if kind == "s":
        return value.s.decode()
    return getattr(value, kind) if kind in ("i", "f", "b") else None


def _other_attributes(variant: Variant) -> Iterator[tuple[str, Variant]]:
    for name, attribute in variant.op.attributes.items():
        if attribute.type == "type" or name in ("seed", "seed2"):
            continue
        if variant.row.function is not None and name not in variant.attributes:
            continue
        value = variant.attributes.get(name, _default(attribute))
        given: Sequence[tuple[str, Any]] = ()
        if attribute.type == "bool":
            given = [(f"is {not value}", not value)]
        elif attribute.type == "string":
            allowed = [v.decode() for v in attribute.allowed_values.list.s] or ["", "x"]
            given = [(f"is {v!r}", v) for v in allowed if v != value]
        elif value is not None:
            given = list(others(value))
        for what, other in given:
            yield f"{name} {what}", variant.with_attribute(name, other)


def variants(op: RawOp) -> Iterator[tuple[str, Variant]]:
    """By names that are unique among those of the op."""
    made = (_special, _resized, _other_leaves, _other_lists, _other_attributes)
    for number, row in enumerate(rows_of(op)):
        first = _first(op, row)
        label = f"{op.name} {number + 1}" if number else op.name
        yield label, first
        for others_of in made if number else (*made, _in_types):
            for what, variant in others_of(first):
                yield f"{label}, {what}", variant


def _precise(variant: Variant) -> Outcome:
    """In float64 on the CPU, where the op has it."""
    for attribute in _type_attributes(variant.op):
        old = _base_type(variant, attribute)
        wide = _WIDE.get(tf.as_dtype(old).name if old is not None else "")
        if wide and tf.as_dtype(wide) in variant.op.types(attribute):
            variant = _in_type(variant, attribute, old, tf.as_dtype(wide).as_numpy_dtype)
    return variant.compute("CPU:0", "eager")


def _moves_data(op: RawOp) -> bool:
    return op.moves_data and op.name not in _COMPUTES


def calls() -> Iterator[Call]:
    for op in raw_ops():
        if op.name in LEFT_OUT:
            continue
        seen = set()
        for name, variant in variants(op):
            if name in seen:
                continue
            seen.add(name)
            on_cpu = functools.partial(variant.compute, "CPU:0")
            ways = variant.row.ways
            yield Call(
                name,
                functools.partial(on_cpu, "eager"),
                {w: functools.partial(variant.compute, "XPU:0", w) for w in ways},
                functools.partial(_precise, variant),
                {
                    w: [
                        functools.partial(on_cpu, p)
                        for p in dict.fromkeys((w, "compiled"))
                        if p != "eager"
                    ]
                    for w in ways
                },
                each=_is_derived(variant),
                bits=_moves_data(op),
                shared=_SHARED,
                must_run="," not in name,  # otherwise the op needs a row
            )
