"""Rows of raw ops of variables, lists of tensors, random and quantized numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tests.scan.arguments import integers, normal, positive
from tests.scan.raw_op_row import Made, Row, by, drawn, ints, real, row, scalar
from tests.scan.tensorflow_ways import Stored

_R: Final = tf.raw_ops
_X: Final = normal(5, 3)
_SEED: Final = ints(7, 8)
_KEY: Final = (np.array([5], np.uint64), np.array([1, 2], np.uint64))


def _list(x: np.ndarray) -> Made:
    """A list of tensors, the rows of ``x``."""
    return Made(
        lambda x: _R.TensorListFromTensor(
            tensor=x, element_shape=tf.constant(x.shape[1:], tf.int32)
        ),
        (x,),
    )


def _pushed(x: Any, tensor: Any) -> Any:
    """The second of two lists, which each had a row pushed back."""
    each = _R.TensorListFromTensor(tensor=x, element_shape=tf.shape(x)[1:])
    lists = _R.TensorListPushBackBatch(input_handles=tf.stack([each, each]), tensor=tensor)
    return lists[1]


def _array(x: Any, **attributes: Any) -> tuple[Any, Any]:
    """A TensorArray's handle and flow, whose elements are the rows of ``x``."""
    handle, flow = _R.TensorArrayV3(size=tf.shape(x)[0], dtype=x.dtype, **attributes)
    flow = _R.TensorArrayScatterV3(
        handle=handle, indices=tf.range(tf.shape(x)[0]), value=x, flow_in=flow
    )
    return handle, flow


def _read_all(handle: Any, flow: Any, dtype: Any, size: Any) -> Any:
    return _R.TensorArrayGatherV3(handle=handle, indices=tf.range(size), flow_in=flow, dtype=dtype)


def _gradient_of_array(x: Any, source: str) -> Any:
    handle, flow = _array(x)
    gradient, flow = _R.TensorArrayGradV3(handle=handle, flow_in=flow, source=source)
    for place in range(x.shape[0]):
        flow = _R.TensorArrayWriteV3(handle=gradient, index=place, value=x[place], flow_in=flow)
    return _read_all(gradient, flow, x.dtype, tf.shape(x)[0])


def _split_array(x: Any, lengths: Any) -> Any:
    handle, flow = _R.TensorArrayV3(
        size=tf.shape(lengths)[0], dtype=x.dtype, identical_element_shapes=False
    )
    flow = _R.TensorArraySplitV3(handle=handle, value=x, lengths=lengths, flow_in=flow)
    return _R.TensorArrayReadV3(handle=handle, index=0, flow_in=flow, dtype=x.dtype)


def _written_array(x: Any, index: Any) -> Any:
    handle, flow = _R.TensorArrayV3(size=5, dtype=x.dtype)
    flow = _R.TensorArrayWriteV3(handle=handle, index=index, value=x[0], flow_in=flow)
    return _R.TensorArrayReadV3(handle=handle, index=index, flow_in=flow, dtype=x.dtype)


def _quantized(function: Callable[..., Any], dtype: Any, result: Any) -> Callable[..., Any]:
    """The op with a first argument, or a result, of a quantized type."""

    def call(x: Any, *others: Any, **attributes: Any) -> Any:
        if dtype is not None:
            x = tf.bitcast(x, dtype)
        names = [a for a in _QUANTIZED_ARGUMENTS if a != "operand" or dtype == tf.qint32]
        y = function(**dict(zip(names, (x, *others), strict=True)), **attributes)
        return y if result is None else tf.bitcast(y, result)

    return call


_QUANTIZED_ARGUMENTS: Final = ("input", "scales", "zero_points")
_RANGE: Final = {"quantization_min_val": -128, "quantization_max_val": 127}


def _clipped(x: Any, low: Any, high: Any, scales: Any, points: Any, **attributes: Any) -> Any:
    q = [tf.bitcast(a, tf.qint32) for a in (x, low, high)]
    y = _R.UniformQuantizedClipByValue(
        operand=q[0], min=q[1], max=q[2], scales=scales, zero_points=points, **attributes
    )
    return tf.bitcast(y, tf.int32)


ROWS: Final[dict[str, list[Row]]] = {
    "AssignAddVariableOp": [row(Stored(_X), normal(5, 3, seed=1))],
    "AssignSubVariableOp": [row(Stored(_X), normal(5, 3, seed=1))],
    "AssignVariableXlaConcatND": [
        row(Stored(normal(4, 3)), [_X[:2], _X[2:4]], num_concats=[2, 1]),
        row(Stored(normal(3, 3)), [_X[:2], _X[2:4]], num_concats=[2, 1], paddings=[1, 0]),
    ],
    "EmptyTensorList": [row(ints(3), scalar(4), element_dtype=tf.float32)],
    **{
        name: [row(positive(3, 37), positive(3, 37, seed=1))]
        for name in ("Igamma", "IgammaGradA", "Igammac", "RandomGammaGrad")
    },
    "Multinomial": [drawn(normal(3, 5), scalar(7))],
    "ParameterizedTruncatedNormal": [
        drawn(ints(3, 5), real(0.5), real(2.0), real(-1.0), real(1.0))
    ],
    "RandomShuffle": [drawn(normal(7, 3))],
    "RandomStandardNormal": [drawn(ints(3, 5), dtype=tf.float32)],
    "RandomUniform": [drawn(ints(3, 5), dtype=tf.float32)],
    "RandomUniformInt": [drawn(ints(3, 5), scalar(-3), scalar(40))],
    "TruncatedNormal": [drawn(ints(3, 5), dtype=tf.float32)],
    "ReadVariableXlaSplitND": [
        row(Stored(normal(4, 3)), T=tf.float32, N=2, num_splits=[2, 1]),
        row(Stored(normal(3, 3)), T=tf.float32, N=2, num_splits=[2, 1], paddings=[1, 0]),
    ],
    "ResourceGatherNd": [
        row(Stored(_X), ints([0], [3], [3]), dtype=tf.float32),
        row(Stored(_X), ints([0, 1], [3, 2]), dtype=tf.float32),
    ],
    "ResourceGather": [
        row(Stored(_X), integers(2, 4, most=5), dtype=tf.float32),
        row(Stored(normal(2, 5, 3)), integers(2, 4, most=5), dtype=tf.float32, batch_dims=1),
    ],
    **{
        f"ResourceScatter{how}": [
            row(Stored(_X), ints(0, 3, 3), normal(3, 3)),
            row(Stored(_X), ints(4, 1), real(2.5)),
        ]
        for how in ("Add", "Div", "Max", "Min", "Mul", "Sub", "Update")
    },
    **{
        f"ResourceScatterNd{how}": [
            row(Stored(_X), ints([0], [3], [3]), normal(3, 3)),
            row(Stored(_X), ints([0, 1], [3, 2]), normal(2)),
        ]
        for how in ("Add", "Max", "Min", "Sub", "Update")
    },
    "ResourceStridedSliceAssign": [
        row(Stored(normal(4, 5)), ints(1, 0), ints(3, 4), ints(1, 2), normal(2, 2))
    ],
    "RngReadAndSkip": [row(Stored(np.array([5, 6, 7], np.int64)), scalar(1), scalar(9, np.uint64))],
    "RngSkip": [
        row(Stored(np.array([5, 6, 7], np.int64)), scalar(1, np.int64), scalar(9, np.int64))
    ],
    **{
        name: [
            row(Stored(np.array([5, 6, 7], np.int64)), scalar(1, np.int64), ints(3, 5), dtype=dtype)
        ]
        for name, dtype in (
            ("StatefulStandardNormalV2", tf.float32),
            ("StatefulTruncatedNormal", tf.float32),
            ("StatefulUniform", tf.float32),
            ("StatefulUniformFullInt", tf.uint64),
        )
    },
    "StatefulUniformInt": [
        row(
            Stored(np.array([5, 6, 7], np.int64)),
            scalar(1, np.int64),
            ints(3, 5),
            scalar(-3),
            scalar(40),
        )
    ],
    "StatelessMultinomial": [row(normal(3, 5), scalar(7), _SEED)],
    "StatelessParameterizedTruncatedNormal": [
        row(ints(3, 5), _SEED, real(0.5), real(2.0), real(-1.0), real(1.0))
    ],
    "StatelessRandomGetKeyCounter": [row(_SEED)],
    "StatelessRandomGetKeyCounterAlg": [row(_SEED)],
    **{
        name: [row(ints(3, 5), _SEED)]
        for name in ("StatelessRandomNormal", "StatelessRandomUniform", "StatelessTruncatedNormal")
    },
    "StatelessRandomUniformFullInt": [row(ints(3, 5), _SEED, dtype=tf.uint64)],
    "StatelessRandomUniformInt": [row(ints(3, 5), _SEED, scalar(-3), scalar(40))],
    **{
        name: [row(ints(3, 5), *_KEY, scalar(1)), row(ints(3, 5), *_KEY, scalar(3))]
        for name in (
            "StatelessRandomNormalV2",
            "StatelessRandomUniformV2",
            "StatelessTruncatedNormalV2",
        )
    },
    "StatelessRandomUniformFullIntV2": [row(ints(3, 5), *_KEY, scalar(1), dtype=tf.uint64)],
    "StatelessRandomUniformIntV2": [row(ints(3, 5), *_KEY, scalar(1), scalar(-3), scalar(40))],
    "TensorArrayCloseV3": [by(lambda x: [_R.TensorArrayCloseV3(handle=_array(x)[0]), x][1], _X)],
    "TensorArrayConcatV3": [
        by(
            lambda x: _R.TensorArrayConcatV3(
                **dict(zip(("handle", "flow_in"), _array(x), strict=True)), dtype=x.dtype
            ),
            normal(2, 3, 4),
        )
    ],
    "TensorArrayGatherV3": [
        by(
            lambda x, i: _R.TensorArrayGatherV3(
                **dict(zip(("handle", "flow_in"), _array(x), strict=True)), indices=i, dtype=x.dtype
            ),
            _X,
            ints(3, 1, 1),
        )
    ],
    "TensorArrayGradV3": [by(_gradient_of_array, _X, source="gradients")],
    "TensorArrayReadV3": [
        by(
            lambda x, i: _R.TensorArrayReadV3(
                **dict(zip(("handle", "flow_in"), _array(x), strict=True)), index=i, dtype=x.dtype
            ),
            _X,
            scalar(2),
        )
    ],
    "TensorArrayScatterV3": [by(lambda x: _read_all(*_array(x), x.dtype, tf.shape(x)[0]), _X)],
    "TensorArraySizeV3": [
        by(
            lambda x: _R.TensorArraySizeV3(
                **dict(zip(("handle", "flow_in"), _array(x), strict=True))
            ),
            _X,
        )
    ],
    "TensorArraySplitV3": [by(_split_array, _X, np.array([2, 0, 3], np.int64))],
    "TensorArrayV3": [
        by(
            lambda n: _R.TensorArraySizeV3(
                **dict(
                    zip(
                        ("handle", "flow_in"),
                        _R.TensorArrayV3(size=n, dtype=tf.float32),
                        strict=True,
                    )
                )
            ),
            scalar(4),
        )
    ],
    "TensorArrayWriteV3": [by(_written_array, _X, scalar(2))],
    "TensorListConcat": [
        row(_list(normal(2, 3, 4)), element_dtype=tf.float32, element_shape=[3, 4])
    ],
    "TensorListConcatLists": [row(_list(_X), _list(normal(2, 3)), element_dtype=tf.float32)],
    "TensorListConcatV2": [
        row(_list(normal(2, 3, 4)), ints(3, 4), np.array([], np.int64), element_dtype=tf.float32)
    ],
    "TensorListElementShape": [row(_list(_X), shape_type=tf.int32)],
    "TensorListFromTensor": [row(_X, ints(3))],
    "TensorListGather": [row(_list(_X), ints(3, 1, 1), ints(3), element_dtype=tf.float32)],
    "TensorListGetItem": [row(_list(_X), scalar(2), ints(3), element_dtype=tf.float32)],
    "TensorListLength": [row(_list(_X))],
    "TensorListPopBack": [row(_list(_X), ints(3), element_dtype=tf.float32)],
    "TensorListPushBack": [row(_list(_X), normal(3))],
    "TensorListPushBackBatch": [by(_pushed, _X, normal(2, 3))],
    "TensorListReserve": [row(ints(3), scalar(4), element_dtype=tf.float32)],
    "TensorListResize": [row(_list(_X), scalar(3)), row(_list(_X), scalar(7))],
    "TensorListScatter": [row(normal(3, 4), ints(2, 0, 4), ints(4))],
    "TensorListScatterIntoExistingList": [row(_list(_X), normal(2, 3), ints(3, 1))],
    "TensorListScatterV2": [row(normal(3, 4), ints(2, 0, 4), ints(4), scalar(6))],
    "TensorListSetItem": [row(_list(_X), scalar(2), normal(3))],
    "TensorListSplit": [row(normal(4, 3), ints(2, 3), np.array([2, 2], np.int64))],
    "TensorListStack": [row(_list(_X), ints(3), element_dtype=tf.float32)],
    "UniformDequantize": [
        by(
            _quantized(_R.UniformDequantize, tf.qint8, None),
            integers(3, 37, most=127).astype(np.int8),
            real(0.1),
            scalar(3),
            Tout=tf.float32,
            **_RANGE,
        )
    ],
    "UniformQuantize": [
        by(
            _quantized(_R.UniformQuantize, None, tf.int8),
            normal(3, 37),
            real(0.1),
            scalar(3),
            Tout=tf.qint8,
            **_RANGE,
        ),
        by(
            _quantized(_R.UniformQuantize, None, tf.int8),
            normal(3, 37),
            positive(3),
            ints(3, -1, 0),
            Tout=tf.qint8,
            quantization_axis=0,
            **_RANGE,
        ),
    ],
    "UniformQuantizedClipByValue": [
        by(
            _clipped,
            integers(3, 37, most=100),
            scalar(9),
            scalar(60),
            real(0.1),
            scalar(3),
            quantization_min_val=-(2**31),
            quantization_max_val=2**31 - 1,
        )
    ],
    "VarIsInitializedOp": [row(Stored(_X))],
}
