"""Lists of tensors by their own ops: those that TensorArray and the gradients of loops are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from .cases import Table, x

TABLE: Final = Table()
op: Final = tf.raw_ops
_ROW: Final = {"element_shape": [4]}
_READ: Final = {"element_shape": [4], "element_dtype": tf.float32}


def add(name: str, function: Callable[[Any], Any], **options: Any) -> None:
    TABLE.add(f"TensorList{name}", function, x(3, 4), **options)


def _list(a: Any) -> Any:
    return op.TensorListFromTensor(tensor=a, **_ROW)


def _stacked(handle: Any) -> Any:
    return op.TensorListStack(input_handle=handle, **_READ)


def _pushed(a: Any) -> Any:
    empty = op.EmptyTensorList(max_num_elements=2, **_READ)
    first = op.TensorListPushBack(input_handle=empty, tensor=a[0])
    return op.TensorListPushBack(input_handle=first, tensor=a[2])


add("Stack", lambda a: _stacked(_list(a)))
add("GetItem", lambda a: op.TensorListGetItem(input_handle=_list(a), index=1, **_READ))
add(
    "SetItem",
    lambda a: _stacked(op.TensorListSetItem(input_handle=_list(a), index=1, item=a[0] * 2)),
)
add(
    "Reserve",
    lambda a: _stacked(
        op.TensorListSetItem(
            input_handle=op.TensorListReserve(num_elements=2, **_READ), index=0, item=a[1]
        )
    ),
)
add("PushBack", lambda a: _stacked(_pushed(a)))
add("PopBack", lambda a: op.TensorListPopBack(input_handle=_pushed(a), **_READ)[1])
add("Length", lambda a: op.TensorListLength(input_handle=_list(a)))
add(
    "ElementShape",
    lambda a: op.TensorListElementShape(input_handle=_list(a), shape_type=tf.int32),
)
add(
    "ConcatV2",
    lambda a: op.TensorListConcatV2(
        input_handle=_list(a), leading_dims=np.zeros(0, np.int64), **_READ
    )[0],
)
add("Gather", lambda a: op.TensorListGather(input_handle=_list(a), indices=[2, 0], **_READ))
add(
    "Scatter",
    lambda a: _stacked(op.TensorListScatterV2(tensor=a, indices=[2, 0, 1], num_elements=3, **_ROW)),
    jit=False,
)
add("Resize", lambda a: _stacked(op.TensorListResize(input_handle=_list(a), size=5)), jit=False)
add(
    "Split",
    lambda a: op.TensorListStack(
        input_handle=op.TensorListSplit(
            tensor=a, element_shape=[1, 4], lengths=np.ones(3, np.int64)
        ),
        element_shape=[1, 4],
        element_dtype=tf.float32,
    ),
)
