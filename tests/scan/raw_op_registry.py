"""The ops of ``tf.raw_ops`` that have a kernel for XPU, from the registries of TensorFlow's ops and kernels."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any, Final, cast

import tensorflow as tf

from tests import tensorflow_without_plugins

# isort: split
from tensorflow.core.framework import types_pb2
from tensorflow.python.framework import kernels, op_def_registry

Types = frozenset[int]  # members of TensorFlow's enumeration DataType
# Element types that NumPy has no array for, or that no tensor of the device has.
_NOT_TRIED: Final = frozenset(
    tf.as_dtype(t).as_datatype_enum for t in ("string", "resource", "variant")
) | frozenset(t.as_datatype_enum for t in (tf.qint8, tf.quint8, tf.qint16, tf.quint16, tf.qint32))


@dataclass(frozen=True)
class RawOp:
    """An op's definition, and the types that the kernels for XPU take: by attribute, those of any of the kernels."""

    definition: Any
    kernels: Mapping[str, Types]

    @property
    def name(self) -> str:
        return str(self.definition.name)

    @cached_property
    def inputs(self) -> Mapping[str, Any]:
        return {a.name: a for a in self.definition.input_arg}

    @cached_property
    def attributes(self) -> Mapping[str, Any]:
        """Those that a call gives: the types and numbers of inputs are theirs already."""
        of_inputs = {
            n
            for a in self.definition.input_arg
            for n in (a.type_attr, a.number_attr, a.type_list_attr)
        }
        return {a.name: a for a in self.definition.attr if a.name not in of_inputs}

    @property
    def python(self) -> Callable[..., Any]:
        """The function of ``tf.raw_ops``."""
        return cast(Callable[..., Any], getattr(tf.raw_ops, self.name))

    @cached_property
    def python_names(self) -> Mapping[str, str]:
        """What the function calls inputs and attributes for which it has another name than the definition."""
        taken = inspect.signature(self.python).parameters
        own = [*self.inputs, *self.attributes]
        ours = [n for n in own if n not in taken]
        theirs = [n for n in taken if n not in own and n != "name"]
        return dict(zip(ours, theirs, strict=True))

    def types(self, attribute: str) -> list[tf.DType]:
        """What an attribute of kind ``type`` may be, by the op and by a kernel for XPU. Strings, resources and
        quantized types are left out.
        """
        (of,) = (a for a in self.definition.attr if a.name == attribute)
        allowed = frozenset(of.allowed_values.list.type) or frozenset(_ALL)
        allowed &= self.kernels.get(attribute, allowed)
        return [tf.as_dtype(t) for t in sorted(allowed - _NOT_TRIED)]

    @cached_property
    def moves_data(self) -> bool:
        """Whether its results are elements of its arguments: it takes elements that are no numbers too."""
        of = {a.name: a for a in self.definition.attr}
        results = [a for a in self.definition.output_arg if a.type_attr]
        if self.definition.is_stateful or not results:
            return False
        allowed = [frozenset(of[a.type_attr].allowed_values.list.type) for a in results]
        return all(not types or types_pb2.DT_BOOL in types for types in allowed)


_ALL: Final = [
    t
    for t in types_pb2.DataType.values()
    if t != types_pb2.DT_INVALID and t < 100 and t not in _NOT_TRIED  # 100 and more are references
]


def raw_ops() -> Iterator[RawOp]:
    """By their names. The process has no device after it either: a child asks for the kernels."""
    registered = _kernels()
    for name in sorted(registered):
        definition = op_def_registry.get(name)
        if hasattr(tf.raw_ops, name) and definition is not None:
            yield RawOp(definition, {a: frozenset(t) for a, t in registered[name].items()})


def _kernels() -> dict[str, dict[str, list[int]]]:
    """By op and attribute, the types of its kernels for XPU; an attribute that some kernel leaves free is left out."""
    ours, theirs = get_context("fork").Pipe(duplex=False)
    child = get_context("fork").Process(target=_send_kernels, args=(theirs,))
    child.start()
    theirs.close()
    try:
        return dict(json.loads(ours.recv_bytes()))
    finally:
        child.join()


def _send_kernels(pipe: Connection) -> None:
    tensorflow_without_plugins.load_plugins()
    found: dict[str, list[dict[str, list[int]]]] = {}
    for kernel in kernels.get_all_registered_kernels().kernel:
        if kernel.device_type == "XPU":
            types = {c.name: list(c.allowed_values.list.type) for c in kernel.constraint}
            found.setdefault(kernel.op, []).append(types)
    by_op = {
        op: {
            name: sorted({t for one in of for t in one[name]})
            for name in set.intersection(*(set(one) for one in of))
        }
        for op, of in found.items()
    }
    pipe.send_bytes(json.dumps(by_op).encode())
