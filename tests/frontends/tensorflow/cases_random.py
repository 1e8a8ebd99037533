"""Random numbers: stateless ones equal the CPU device's; stateful ones have its shapes and dtypes."""

from __future__ import annotations

from typing import Final

import tensorflow as tf

from .cases import Table, distinct, given, whole, x

TABLE: Final = Table()
add = TABLE.add

_SEED: Final = given([3, 7], "int32")
_PHILOX: Final = tf.random.Algorithm.PHILOX

add(
    "stateless_uniform",
    lambda s: tf.random.stateless_uniform([5, 7], s, alg=_PHILOX),
    _SEED,
)
add(
    "stateless_uniform_int",
    lambda s: tf.random.stateless_uniform([5, 7], s, 0, 100, tf.int32, alg=_PHILOX),
    _SEED,
)
add(
    "stateless_uniform_bits",
    lambda s: tf.random.stateless_uniform([9], s, None, None, tf.uint32, alg=_PHILOX),
    _SEED,
)
add(
    "stateless_uniform_double",
    lambda s: tf.random.stateless_uniform([9], s, dtype=tf.float64, alg=_PHILOX),
    _SEED,
)
add(
    "stateless_normal",
    lambda s: tf.random.stateless_normal([5, 7], s, alg=_PHILOX),
    _SEED,
)
add(
    "stateless_truncated",
    lambda s: tf.random.stateless_truncated_normal([5, 7], s, alg=_PHILOX),
    _SEED,
)
# The CPU has no kernels of Threefry. XLA's, from which the bits are to be, are those of compiled functions.
for _name, _function in {
    "uniform": lambda s: tf.random.stateless_uniform([5, 7], s, alg="threefry"),
    "uniform_double": lambda s: tf.random.stateless_uniform(
        [9], s, dtype=tf.float64, alg="threefry"
    ),
    "uniform_int": lambda s: tf.random.stateless_uniform([9], s, -3, 100, tf.int64, alg="threefry"),
    "bits": lambda s: tf.random.stateless_uniform([9], s, None, None, tf.uint32, alg="threefry"),
    "bits_64": lambda s: tf.random.stateless_uniform([9], s, None, None, tf.uint64, alg="threefry"),
    "split": lambda s: tf.random.split(s, 3, alg="threefry"),
    "fold_in": lambda s: tf.random.fold_in(s, 5, alg="threefry"),
}.items():
    add(f"threefry_{_name}", _function, _SEED, like_xla=True)
add(
    "threefry_normal",
    lambda s: tf.random.stateless_normal([5, 7], s, alg="threefry"),
    _SEED,
    tolerance=64,
    like_xla=True,
)
add("stateless_split", lambda s: tf.random.split(s, 3, alg=_PHILOX), _SEED)
add("stateless_fold_in", lambda s: tf.random.fold_in(s, 5, alg=_PHILOX), _SEED)
add(
    "stateless_shuffle",
    lambda a, s: tf.sort(tf.random.experimental.stateless_shuffle(a, s, alg=_PHILOX)),
    distinct(9),
    _SEED,
    jit=False,
)
add(
    "stateless_categorical",
    lambda a, s: tf.random.stateless_categorical(a, 6, s),
    x(3, 5),
    _SEED,
    compare=False,
)

# These take their seed from a state that the devices do not share.
add("uniform", lambda: tf.random.uniform([5, 7]), compare=False)
add("uniform_int", lambda: tf.random.uniform([5, 7], 0, 10, tf.int32), compare=False)
add("normal", lambda: tf.random.normal([5, 7]), compare=False)
add("truncated_normal", lambda: tf.random.truncated_normal([5, 7]), compare=False)
add("random_shuffle", lambda a: tf.sort(tf.random.shuffle(a)), distinct(9))
add("categorical", lambda a: tf.random.categorical(a, 4), x(3, 5), compare=False)
add("gamma", lambda: tf.random.gamma([5], 2.0), compare=False, jit=False)
add("poisson", lambda: tf.random.poisson([5], 2.0), compare=False, jit=False)
add("dropout", lambda a: tf.cast(tf.nn.dropout(a, 0.5), tf.float32), x(3, 5), compare=False)
add("random_crop", lambda a: tf.image.random_crop(a, [4, 4, 3]), x(8, 8, 3), compare=False)
add("random_index", lambda i: tf.gather(tf.range(10), i), whole(4, high=10))
