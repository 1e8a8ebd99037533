"""The table of factors that the "fft" kernel reads: made here, and where in it the factors of each kind begin."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...ir import dtypes
from .butterflies import SUMMED_PRIMES
from .fft_lengths import inner_length, radices_of

if TYPE_CHECKING:
    from ...targets.target import Target


def roots(numerators: np.ndarray, denominator: int) -> np.ndarray:
    """exp(-2 pi i numerators / denominator) in double precision, as [real, imaginary] along a last dimension."""
    # As butterflies.root: arguments of cos and sin at most pi / 4.
    eighths, rest = np.divmod(8 * (numerators % denominator), denominator)
    rest = np.where(eighths % 2, denominator - rest, rest)
    angle = np.pi / 4 * (rest / denominator)
    c, s = np.cos(angle), np.sin(angle)
    re = np.choose(eighths, [c, s, -s, -c, -c, -s, s, c])
    im = np.choose(eighths, [s, c, c, s, -s, -c, -c, -s])
    return np.stack([re, -im], -1)


def _factors(radix: int, rest: int) -> np.ndarray:
    """What the results of the transforms of a pass are multiplied by, but for the first of each."""
    return roots(np.outer(np.arange(rest), np.arange(1, radix)), radix * rest)


def _cosines(prime: int) -> np.ndarray:
    """The cosines and sines of a transform of prime length, for each result and each pair of terms."""
    half = np.arange(1, prime // 2 + 1)
    return roots(-np.outer(half, half), prime)


class Stage(NamedTuple):
    """A pass. ``factors`` and ``sums``: the places of its factors, and of a long transform's cosines and sines."""

    radix: int
    rest: int
    stride: int
    factors: int = 0
    sums: int = 0


class Table:
    """Where in the table the twiddle factors of each kind begin, in numbers. Nothing is computed before :meth:`values`.

    ``stages``: the passes over the numbers. ``halves``: where the factors begin that take the transform of pairs of
    real numbers apart.

    Factor k l of ``spread``, for transform l of a group that begins with l0, is one number (``first``), the product of
    those of k l0 (``first``) and of k (l - l0) (``second``), or, in the longest transforms, the latter by two numbers
    whose product is that of k l0 = high * step + low (``first`` and ``low``, step = 1 << ``shift``): for those tables
    of about sqrt(spread) numbers suffice.
    """

    def __init__(self, config: Mapping[str, Any], target: Target, place: int = 0) -> None:
        n = inner_length(config)
        self.parts: list[Callable[[], np.ndarray]] = []
        self.size = place  # in elements, with what stands before
        self.stages: list[Stage] = []
        self._add_stages(n, target)
        pairs = config["form"] != "complex" and config["n"] % 2 == 0
        self.halves = self._add(
            2 * (n // 2 + 1) if pairs else 0, lambda: roots(np.arange(n // 2 + 1), 2 * n)
        )
        self.first = self.second = self.low = self.shift = 0
        if config["spread"]:
            self._add_spread(n, config)

    def _add_stages(self, n: int, target: Target) -> None:
        """The passes of a transform of length ``n``."""
        found = radices_of(n, target)
        assert found is not None
        rest, stride = n, 1
        for radix in found:
            rest //= radix
            count = 2 * (radix - 1) * rest if rest > 1 else 0
            place = self._add(count, functools.partial(_factors, radix, rest))
            sums = 0
            if radix in SUMMED_PRIMES:
                sums = self._add(2 * (radix // 2) ** 2, functools.partial(_cosines, radix))
            self.stages.append(Stage(radix, rest, stride, place, sums))
            stride *= radix

    def _add_spread(self, n: int, config: Mapping[str, Any]) -> None:
        """The factors of ``spread``, each the product of ``products`` numbers."""
        spread, lanes, line = config["spread"], config["lanes"], config["sizes"][-1]
        products = config["products"]
        if products == 1:
            self.first = self._add(
                2 * n * line,
                lambda: np.moveaxis(roots(np.outer(np.arange(n), np.arange(line)), spread), -1, 0),
            )
        elif products == 2:
            starts = np.minimum(np.arange(-(-line // lanes)) * lanes, line - lanes)
            self.first = self._add(
                2 * n * len(starts), lambda: roots(np.outer(starts, np.arange(n)), spread)
            )
        elif products == 3:
            self.shift = (spread.bit_length() + 1) // 2
            step = 1 << self.shift
            high = -(-spread // step)
            self.first = self._add(2 * high, lambda: roots(step * np.arange(high), spread))
            self.low = self._add(2 * step, lambda: roots(np.arange(step), spread))
        if products > 1:
            self.second = self._add(
                2 * n * lanes,
                lambda: np.moveaxis(roots(np.outer(np.arange(n), np.arange(lanes)), spread), -1, 1),
            )

    def _add(self, size: int, make: Callable[[], np.ndarray]) -> int:
        place = self.size
        if size:
            self.parts.append(make)
        self.size += size
        return place

    def values(self) -> list[np.ndarray]:
        return [np.ravel(make()) for make in self.parts]


def halves_of(config: Mapping[str, Any], target: Target) -> list[tuple[Mapping[str, Any], int]]:
    """The configurations of the passes of a kernel, and where in the table their factors begin."""
    first, second, *inverse = config["halves"]
    halves = [(first, 0), (second, Table(first, target).size)]
    # The factors of an inverse transform are those of the transform: its numbers are exchanged.
    return halves + [(half, place) for half, (_, place) in zip(inverse, halves, strict=False)]


def end_of_halves(config: Mapping[str, Any], target: Target) -> int:
    """Where in the table what follows on the factors of the passes begins."""
    last, place = halves_of(config, target)[1]
    return Table(last, target, place).size


def _tables(config: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The configurations whose factors are in the table of ``config``, one behind the other."""
    return config["halves"][:2] if "halves" in config else (config.get("pass", config),)


def table_elements(config: Mapping[str, Any], target: Target) -> int:
    """How many numbers :func:`table` has, without computing one."""
    size = sum(Table(half, target).size for half in _tables(config))
    if "length" in config:
        size += 2 * ((0 if is_cyclic(config) else config["n"]) + config["length"])
    return max(1, size)


def table(config: Mapping[str, Any], dtype: dtypes.DType, target: Target) -> np.ndarray:
    """The factors that a kernel reads, rounded once to ``dtype``."""
    made = [values for half in _tables(config) for values in Table(half, target).values()]
    if "length" in config:
        inverse, _ = config["exchanged"]
        arrays: Sequence[np.ndarray]
        if is_cyclic(config):
            _, _, spectrum = cycle(config["n"], inverse, config["scale"])
            if "pass" in config:
                spectrum[0] = 1.0  # a sum to which another one is added (:mod:`.fft_cyclic`)
            arrays = (spectrum,)
        else:
            arrays = chirps(config["n"], config["length"], inverse, config["scale"])
        for factors in arrays:
            made += [factors.real, factors.imag]
    values = np.concatenate(made) if made else np.zeros(1)
    return values.astype(dtype.numpy)


def is_cyclic(config: Mapping[str, Any]) -> bool:
    """Whether a convolution is that of a prime length, by the powers of a primitive root."""
    cyclic: bool = config["length"] < config["n"]
    return cyclic


def cycle(prime: int, inverse: bool, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What Rader's algorithm needs for a transform of ``prime`` numbers: which of them are convolved, in their order;
    which numbers of the result that gives; and what it multiplies their transform by (C. M. Rader, Discrete Fourier
    transforms when the number of data samples is prime, 1968).
    """
    length = prime - 1
    factors = [d for d in range(2, length + 1) if length % d == 0]
    root = next(g for g in range(2, prime) if all(pow(g, length // d, prime) > 1 for d in factors))
    order = np.array([pow(root, m, prime) for m in range(length)])
    results = np.roll(order[::-1], 1)  # the powers of the inverse
    terms = roots(results, prime).view(np.complex128)[..., 0]
    spectrum = np.fft.fft(terms.conj() if inverse else terms)
    return order, results, spectrum * (scale / length)


def chirps(n: int, length: int, inverse: bool, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """What Bluestein's algorithm multiplies ``n`` numbers by, before and after a convolution of ``length``, and what it
    multiplies their transform by: j k = (j^2 + k^2 - (k - j)^2) / 2.
    """
    k = np.arange(n)
    chirp = roots((k * k) % (2 * n), 2 * n).view(np.complex128)[..., 0]
    if inverse:
        chirp = chirp.conj()
    wrapped = np.zeros(length, np.complex128)
    wrapped[:n] = chirp.conj()
    wrapped[length - n + 1 :] = chirp.conj()[:0:-1]
    return chirp, np.fft.fft(wrapped) * (scale / length)
