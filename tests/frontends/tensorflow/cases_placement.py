"""What XLA has no kernels for: strings, sparse and ragged tensors, sets. TensorFlow places them on the CPU."""

from __future__ import annotations

from typing import Any, Final

import tensorflow as tf

from .cases import Table, given, whole, x

TABLE: Final = Table()
_WORDS: Final = given(["one", "twenty two", "3"], "S")


def add(name: str, function: Any, *makers: Any, **options: Any) -> None:
    TABLE.add(name, function, *makers, jit=False, **options)


def _sparse(a: Any) -> tf.SparseTensor:
    return tf.SparseTensor([[0, 1], [1, 0], [2, 2]], a, [3, 4])


def _ragged(a: Any) -> tf.RaggedTensor:
    return tf.RaggedTensor.from_row_lengths(a, [2, 0, 3])


add("string_length", tf.strings.length, _WORDS)
add("string_upper", tf.strings.upper, _WORDS)
add("string_join", lambda a: tf.strings.join([a, a], "-"), _WORDS)
add("string_split", lambda a: tf.strings.split(a).flat_values, _WORDS)
add("string_substr", lambda a: tf.strings.substr(a, 0, 2), _WORDS)
add("string_replace", lambda a: tf.strings.regex_replace(a, "[aeiou]", "_"), _WORDS)
add("string_hash", lambda a: tf.strings.to_hash_bucket_fast(a, 10), _WORDS)
add("string_number", lambda: tf.strings.to_number(tf.constant(["1.5", "2"])))
add("as_string", tf.strings.as_string, whole(3))
add("string_gather", lambda a, i: tf.gather(a, i), _WORDS, whole(2, high=3))
add("string_concat", lambda a: tf.concat([a, a], 0), _WORDS)
add("string_equal", lambda a: tf.equal(a, "3"), _WORDS)
add("base64", lambda a: tf.io.decode_base64(tf.io.encode_base64(a)), _WORDS)
add("decode_raw", lambda: tf.io.decode_raw(tf.constant(b"\x01\x02\x03\x04"), tf.int16))
add("serialize", lambda a: tf.io.parse_tensor(tf.io.serialize_tensor(a), tf.float32), x(3, 5))
add("decode_csv", lambda: tf.io.decode_csv(["1,2.5", "3,4.5"], [[0], [0.0]]))
add(
    "edit_distance",
    lambda: tf.edit_distance(
        tf.sparse.from_dense([["a", "b"]]), tf.sparse.from_dense([["a", "c"]])
    ),
)

add("sparse_to_dense", lambda a: tf.sparse.to_dense(_sparse(a)), x(3))
add("sparse_from_dense", lambda a: tf.sparse.to_dense(tf.sparse.from_dense(tf.nn.relu(a))), x(3, 4))
add("sparse_matmul", lambda a, b: tf.sparse.sparse_dense_matmul(_sparse(a), b), x(3), x(4, 2))
add("sparse_reduce_sum", lambda a: tf.sparse.reduce_sum(_sparse(a), 1), x(3))
add("sparse_add", lambda a, b: tf.sparse.add(_sparse(a), b), x(3), x(3, 4))
add("sparse_segment_sum", lambda a: tf.sparse.segment_sum(a, [0, 1, 3], [0, 0, 1]), x(5, 3))
add("sparse_transpose", lambda a: tf.sparse.to_dense(tf.sparse.transpose(_sparse(a))), x(3))
add(
    "embedding_sparse",
    lambda t: tf.nn.embedding_lookup_sparse(
        t, tf.sparse.from_dense([[1, 2], [3, 0]]), None, combiner="sum"
    ),
    x(5, 4),
)
add("ragged_sum", lambda a: tf.reduce_sum(_ragged(a), axis=1), x(5))
add("ragged_dense", lambda a: _ragged(a).to_tensor(), x(5))
add("ragged_concat", lambda a: tf.concat([_ragged(a), _ragged(a)], 1).flat_values, x(5))
add("set_intersection", lambda: tf.sparse.to_dense(tf.sets.intersection([[1, 2, 3]], [[2, 3, 4]])))
add(
    "hash_table",
    lambda i: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer([0, 1, 2, 3], [9, 8, 7, 6]), -1
    ).lookup(i),
    whole(5, high=6),
)
add(
    "audio_wav",
    lambda a: tf.audio.decode_wav(tf.audio.encode_wav(tf.clip_by_value(a, -1, 1), 8000))[0],
    x(16, 1),
)
add("map_fn", lambda a: tf.map_fn(lambda v: v * 2 + 1, a), x(5, 3))
add("scan", lambda a: tf.scan(lambda total, v: total + v, a), x(5, 3))
add("foldl", lambda a: tf.foldl(lambda total, v: total * 0.5 + v, a), x(5, 3))
add("vectorized_map", lambda a: tf.vectorized_map(lambda v: tf.reduce_sum(v * v), a), x(5, 3))
add("numpy_function", lambda a: tf.numpy_function(lambda v: v * 2, [a], tf.float32), x(5))
add("py_function", lambda a: tf.py_function(lambda v: v + 1, [a], tf.float32), x(5))
add("assert", lambda a: tf.debugging.assert_all_finite(a, "not finite"), x(5))
