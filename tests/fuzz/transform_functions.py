"""Fourier transforms as users of JAX write them: of any length, along any axes, of real and complex numbers, with what
is before and behind them, and their gradients.

The compiler makes kernels of a transform: passes of small factors, two of them for a long one, convolutions for a
large prime factor, two dimensions at once, and it reads and writes the numbers where they lie. So lengths are of every
kind, axes lie in every order, and transforms meet what is fused with them, or nearly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any

# Of a transform: small ones, powers and products of small factors, primes, and multiples of primes.
_SMALL: Final = [*range(1, 18), 18, 20, 21, 24, 25, 27, 30, 32]
_SMOOTH: Final = [
    36, 40, 45, 48, 49, 60, 63, 64, 75, 77, 81, 96, 100, 105, 120, 121, 125, 128, 143, 144, 150, 169, 180, 192, 200,
    225, 240, 243, 250, 256, 300, 315, 343, 360, 375, 384, 400, 480, 500, 512, 600, 625, 640, 720, 729, 768, 1000,
    1001, 1024, 1080, 1155, 1200, 1280, 1331, 1500, 1536, 1920, 2000, 2048, 2187, 2400, 2500, 3000, 3125, 4096, 5000,
    6000, 8192, 10000, 12000, 16384,
]  # fmt: skip
_ROUGH: Final = [
    19, 22, 23, 26, 29, 31, 34, 37, 38, 41, 43, 46, 47, 51, 53, 58, 59, 61, 62, 67, 71, 73, 74, 79, 82, 83, 86, 89, 94,
    97, 101, 103, 107, 127, 131, 134, 149, 151, 173, 178, 191, 202, 211, 251, 254, 257, 262, 289, 311, 401, 509, 514,
    521, 761, 1009, 1018, 1021, 1042, 2003, 2027, 2039, 4093,
]  # fmt: skip
_OTHERS: Final = [
    1,
    1,
    2,
    2,
    3,
    4,
    5,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    32,
    33,
    64,
    65,
    100,
    130,
]  # dimensions beside them
_NUMBERS: Final = 40_000  # of an array at most
_REALS: Final = ["float32", "float32", "float32", "float64", "bfloat16", "float16"]
_NORMS: Final = ["backward", "backward", "ortho", "forward"]


class Transforms:
    """A function with one transform or two, by the numbers that were drawn for it."""

    def __init__(self, seed: int) -> None:
        self.chances, self.rng = Random(seed), np.random.default_rng(seed)
        self.dtype = jnp.dtype(self.choose(*_REALS))
        self.arguments: list[np.ndarray] = []

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def length(self, most: int) -> int:
        """A length of a transform, up to ``most``."""
        kind = self.choose(_SMALL, _SMOOTH, _SMOOTH, _ROUGH)
        return int(self.chances.choice([n for n in kind if n <= most] or [1]))

    def shape(self) -> tuple[list[int], list[int]]:
        """The shape of an array, and the axes that are transformed, in some order."""
        rank = self.choose(1, 1, 1, 2, 2, 3)
        room, sizes = _NUMBERS, []
        for number in range(rank):
            sizes.append(self.length(max(1, int(room ** (1 / (rank - number))))))
            room //= sizes[-1]
        axes = list(range(rank))
        for _ in range(self.choose(0, 1, 1, 2)):
            size = self.chances.choice([n for n in _OTHERS if n <= max(1, room)])
            room //= size
            place = self.chances.randint(0, len(sizes))
            sizes.insert(place, size)
            axes = [a + (a >= place) for a in axes]
        if self.chances.random() < 0.3:
            self.chances.shuffle(axes)
        return sizes, axes

    def new(self, shape: Sequence[int], *, complex_: bool, dtype: Any = None) -> int:
        """The number of a new argument of random numbers."""
        values = self.rng.standard_normal(shape)
        dtype = jnp.dtype(dtype or self.dtype)
        if complex_:
            values = values + 1j * self.rng.standard_normal(shape)
            dtype = jnp.dtype("complex128" if dtype == jnp.float64 else "complex64")
        self.arguments.append(np.asarray(values).astype(dtype))
        return len(self.arguments) - 1

    def transform(self, of_real: bool, axes: list[int]) -> tuple[str, Callable[[Array], Array]]:
        """A transform along ``axes`` of an array of real or complex numbers; the first letter of its name says which
        it gives.
        """
        norm = self.choose(*_NORMS)
        rest = {"axes": tuple(axes), "norm": norm}
        alone = {"axis": axes[0], "norm": norm}
        if of_real:
            if len(axes) == 1 and self.chances.random() < 0.2:
                return "complex", lambda x: jnp.fft.ihfft(x, **alone)
            if self.chances.random() < 0.75:
                return "complex", lambda x: jnp.fft.rfftn(x, **rest)
            return "complex", lambda x: jnp.fft.fftn(x, **rest)
        kind = self.choose("fft", "fft", "ifft", "ifft", "irfft", "hfft")
        if kind == "hfft" and len(axes) == 1:
            return "real", lambda x: jnp.fft.hfft(x, **alone)
        if kind in ("irfft", "hfft"):
            odd = self.choose(0, 0, 1)

            def back(x: Array) -> Array:
                sizes = [x.shape[a] for a in axes]
                sizes[-1] = max(1, 2 * (sizes[-1] - 1) + odd)
                return jnp.fft.irfftn(x, s=sizes, **rest)

            return "real", back
        function = jnp.fft.fftn if kind == "fft" else jnp.fft.ifftn
        return "complex", lambda x: function(x, **rest)

    def change(self, is_complex: bool, shape: Sequence[int]) -> tuple[bool, Any]:
        """Something that is done to an array of ``shape`` and keeps that: whether what it gives is complex, and a
        function of the array and the arguments.
        """
        kind = self.choose(
            "nothing", "scale", "weights", "spectrum", "reverse", "window", "parts", "shift", "sum"
        )
        if kind == "scale":
            factor = self.choose(0.5, -2.0, 0.1, 3.0)
            return is_complex, lambda x, given: x * jnp.asarray(factor, x.dtype)
        if kind in ("weights", "spectrum"):
            dims = [n if self.chances.random() < 0.6 else 1 for n in shape]
            makes_complex = kind == "spectrum" and is_complex
            other = self.new(dims, complex_=makes_complex)
            if self.chances.random() < 0.3 and makes_complex:
                return True, lambda x, given: x * jnp.conj(given[other])
            return is_complex, lambda x, given: x * given[other].astype(x.dtype)
        axis = self.chances.randrange(len(shape))
        if kind == "reverse":
            return is_complex, lambda x, given: jnp.flip(x, axis)
        if kind == "window":  # a cut and a padding
            size = shape[axis]
            low, high = sorted(self.chances.randint(0, size) for _ in range(2))
            places = tuple(
                slice(low, high) if a == axis else slice(None) for a in range(len(shape))
            )
            return is_complex, lambda x, given: jnp.zeros_like(x).at[places].set(x[places])
        if kind == "shift":
            return is_complex, lambda x, given: jnp.fft.fftshift(x, axis)
        if kind == "sum":
            other = self.new(shape, complex_=False)
            return is_complex, lambda x, given: x + given[other].astype(x.dtype)
        if kind == "parts" and is_complex:
            part = self.choose(jnp.real, jnp.imag, jnp.conj, lambda x: x.real**2 + x.imag**2)
            return part is jnp.conj, lambda x, given: part(x)
        return is_complex, lambda x, given: x

    def function(self) -> Callable[..., Array]:
        """Changes, a transform, changes, and often another transform along the same axes."""
        shape, axes = self.shape()
        is_complex = self.dtype.itemsize >= 4 and self.chances.random() < 0.5
        source = self.new(shape, complex_=is_complex)
        steps: list[Callable[[Array, Sequence[Array]], Array]] = []
        narrow = self.dtype.itemsize < 4
        if self.chances.random() < 0.3 and len(shape) > 1:
            order = list(range(len(shape)))
            self.chances.shuffle(order)
            steps.append(lambda x, given: x.transpose(order))
            shape, axes = [shape[p] for p in order], [order.index(a) for a in axes]
        if narrow:
            steps.append(lambda x, given: x.astype(jnp.float32))
        for number in range(self.choose(1, 1, 2)):
            if self.chances.random() < 0.5:
                is_complex, change = self.change(is_complex, shape)
                steps.append(change)
            made, transform = self.transform(not is_complex, axes)
            steps.append(lambda x, given, t=transform: t(x))
            is_complex = made == "complex"
            shapes = jax.eval_shape(lambda *given: self.run(steps, source, given), *self.arguments)
            shape = list(shapes.shape)
            if math.prod(shape) > 2 * _NUMBERS or number == 1:
                break
        if self.chances.random() < 0.6:
            is_complex, change = self.change(is_complex, shape)
            steps.append(change)
        if narrow and not is_complex and self.chances.random() < 0.5:
            steps.append(lambda x, given: x.astype(self.dtype))
        return lambda *given: self.run(steps, source, given)

    @staticmethod
    def run(steps: Sequence[Callable[..., Array]], source: int, given: Sequence[Array]) -> Array:
        x = given[source]
        for step in steps:
            x = step(x, given)
        return x


def make(seed: int) -> Case:
    """Transforms as JAX lowers them, or their gradient."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    transforms = Transforms(seed)
    function = transforms.function()
    arguments = transforms.arguments
    if transforms.chances.random() < 0.3:
        made = jax.eval_shape(function, *arguments)
        towards = transforms.new(
            made.shape, complex_=jnp.iscomplexobj(made), dtype=jnp.finfo(made.dtype).dtype
        )
        which = transforms.chances.randrange(len(arguments) - 1)

        def gradient(*given: Array) -> Array:
            def of_one(x: Array) -> Array:
                return function(*given[:which], x, *given[which + 1 : towards])

            value, back = jax.vjp(of_one, given[which])
            return back(given[towards].astype(value.dtype))

        return Case(lowered(gradient, arguments, ()), arguments, exact=False)
    return Case(lowered(function, arguments, ()), arguments, exact=False)
