"""Convolutions of every kind as users of JAX write them: in groups of features and of the batch, depthwise with
multipliers, with both dilations, strides and padding of either sign, in any order of dimensions, in one to three
dimensions; and their gradients by both operands.

The numbers are those of :mod:`.product_functions`: whole, and so few of them not zero that every sum is known to the
bit. Which kernel or library computes a convolution depends on its features, positions, terms and types
(targets/costs.py, passes/library/convolution_costs.py). A program is one of several sorts, each of which has sizes
beside the bounds of one choice, of any CPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case
from tests.fuzz.product_functions import Numbers, Product, Values, Writer, once

Array = Any

_MULTIPLICATIONS: Final = (
    12_000_000  # of a program, with those by padding; the evaluator makes some 100 a microsecond
)
_ELEMENTS: Final = 1_000_000  # of an array
_NUMBERS: Final = [
    *[Numbers("float32", 1 << 20)] * 5,
    *[Numbers("bfloat16", 128)] * 4,
    Numbers("bfloat16", 1 << 20, "float32"),
    Numbers("float16", 1 << 10),
    Numbers("float16", 1 << 20, "float32"),
    Numbers("float64", 1 << 40),
    Numbers("int8", 1 << 30, "int32"),
    Numbers("uint8", 1 << 30, "int32"),
    Numbers("int16", 1 << 30, "int32"),
    Numbers("int32", 1 << 30),
]
# Types of the arguments behind a product of integers: both become s32 where it is computed.
_MIXED: Final = [("uint8", "int8"), ("int8", "uint8"), ("int8", "int16"), ("uint8", "int32")]
# Features beside those of vectors, tiles and the bounds of the choices (3, 4, 8, 16, 32, 64, 128, 384, 512).
_FEATURES: Final = [
    1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 96, 127, 128, 129,
]  # fmt: skip
_PLACES: Final = [1, 2, 3, 4, 5, 7, 8, 9, 12, 14, 15, 16, 17, 23, 28, 31, 32, 33, 40, 56, 64, 65]
_USUAL: Final = {
    1: [("NWC", "WIO", "NWC"), ("NCW", "OIW", "NCW")],
    2: [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("NHWC", "OHWI", "NHWC"), ("NHWC", "HWIO", "NCHW")],
    3: [("NDHWC", "DHWIO", "NDHWC"), ("NCDHW", "OIDHW", "NCDHW")],
}  # fmt: skip


@dataclass
class Sizes:
    """A convolution's sizes: of features those of a group of features (``inputs``), and all (``outputs``)."""

    places: list[int]
    window: list[int]
    inputs: int
    outputs: int
    batch: int = 1
    groups: int = 1
    batch_groups: int = 1
    strides: list[int] = field(default_factory=list)
    spread: list[int] = field(default_factory=list)  # the dilation of the input
    dilation: list[int] = field(default_factory=list)  # that of the window
    padding: list[tuple[int, int]] = field(default_factory=list)

    @property
    def rank(self) -> int:
        return len(self.window)

    @property
    def positions(self) -> list[int]:
        """Those of the result along each dimension."""
        found = []
        for n in range(self.rank):
            reach = (self.places[n] - 1) * self.spread[n] + 1 + sum(self.padding[n])
            extent = (self.window[n] - 1) * self.dilation[n] + 1
            found.append(max(0, (reach - extent) // self.strides[n] + 1))
        return found

    @property
    def terms(self) -> int:
        return self.inputs * math.prod(self.window)

    @property
    def multiplications(self) -> int:
        positions = math.prod(self.positions)
        return self.batch // self.batch_groups * self.outputs * positions * self.terms

    @property
    def elements(self) -> int:
        left = self.batch * self.inputs * self.groups * math.prod(self.places)
        result = self.batch // self.batch_groups * self.outputs * math.prod(self.positions)
        return max(left, self.outputs * self.terms, result)


class Drawn:
    """The sizes of a convolution, by what is drawn for it."""

    def __init__(self, chances: Random) -> None:
        self.chances = chances

    def choose(self, *options: Any) -> Any:
        return self.chances.choice(options)

    def features(self, most: int = 129) -> int:
        return int(self.chances.choice([f for f in _FEATURES if f <= most]))

    def places_of(self, rank: int, most: int = 65) -> list[int]:
        limit = {1: most * 8, 2: most, 3: min(most, 17)}[rank]
        return [int(self.chances.choice([p for p in _PLACES if p <= limit])) for _ in range(rank)]

    def window_of(self, rank: int) -> list[int]:
        return [self.choose(1, 2, 3, 3, 3, 4, 5, 7) for _ in range(rank)]

    # ------------------------------------------------------------------------------------------------- the sorts

    def any(self) -> Sizes:
        rank = self.choose(1, 2, 2, 3)
        return Sizes(
            self.places_of(rank, 33), self.window_of(rank), self.features(33), self.features(33)
        )

    def depthwise(self) -> Sizes:
        """One input feature for each group, several outputs, windows on both sides of 9 and 64 elements."""
        rank = self.choose(1, 2, 2, 2, 3)
        groups = self.features()
        each = self.choose(1, 1, 1, 2, 3, 4, 8, 16)
        window = self.window_of(rank)
        if rank == 2 and self.chances.random() < 0.2:
            window = self.choose([8, 8], [5, 13], [1, 65], [9, 7], [11, 1])
        return Sizes(self.places_of(rank), window, 1, groups * each, groups=groups)

    def grouped(self) -> Sizes:
        """Groups of a few features, up to 8 (16 on Zen 3), and of more than these, up to 384 in all and more."""
        rank = self.choose(1, 2, 2, 3)
        inputs, outputs = (self.choose(1, 2, 3, 4, 7, 8, 9, 15, 16, 17) for _ in range(2))
        groups = self.choose(2, 3, 4, 5, 8, 16, 24, 25, 48, 49)
        return Sizes(
            self.places_of(rank), self.window_of(rank), inputs, outputs * groups, groups=groups
        )

    def of_the_batch(self) -> Sizes:
        """Groups of the batch, as gradients of the weights of grouped convolutions have them."""
        rank = self.choose(1, 2, 2, 3)
        groups = self.choose(2, 3, 4, 8, 16)
        sizes = Sizes(
            self.places_of(rank), self.window_of(rank), self.features(17), groups * self.features(9)
        )
        sizes.batch_groups, sizes.batch = groups, groups * self.choose(1, 1, 2, 4, 5)
        if self.chances.random() < 0.4:  # the "kernel" is larger than the result
            sizes.window = [max(1, p - self.choose(0, 1, 2)) for p in sizes.places]
        return sizes

    def points(self) -> Sizes:
        """Windows of one element, of positions beside 512 and features beside 64."""
        rank = self.choose(1, 2, 2, 3)
        sizes = Sizes(self.places_of(rank), [1] * rank, self.features(), self.features())
        if self.chances.random() < 0.5:
            sizes.inputs, sizes.outputs = (self.choose(63, 64, 65, 96, 128) for _ in range(2))
        if rank == 2 and self.chances.random() < 0.4:
            sizes.places = self.choose([16, 32], [7, 73], [19, 27], [8, 8], [1, 13])
        return sizes

    def few_positions(self) -> Sizes:
        """A large kernel of 2^15 (bf16) or 2^19 (f32) elements and more, or nearly, by few positions."""
        window = self.choose([3, 3], [3, 3], [5, 5], [7, 7], [2, 2], [3], [1, 7])
        terms, wanted = math.prod(window), self.choose(1 << 15, 1 << 19) * self.choose(0.9, 1.1)
        inputs = self.choose(31, 32, 48, 64, 128, 256)
        sizes = Sizes([], window, inputs, max(1, round(wanted / terms / inputs)))
        sizes.places = [w + self.choose(0, 1, 2, 3) for w in window]
        sizes.batch = self.choose(1, 1, 2, 3)
        return sizes

    def images(self) -> Sizes:
        """Images of a few features, whose widths are whole vectors or not."""
        width = self.choose(16, 32, 48, 64, 15, 17, 28, 33, 65)
        rank = self.choose(1, 2, 2)
        places = [width * 4] if rank == 1 else [self.choose(7, 16, 33), width]
        return Sizes(places, self.window_of(rank), self.features(65), self.features(65))

    def patches(self) -> Sizes:
        """Windows that lie apart."""
        rank = self.choose(1, 2, 2, 3)
        window = [self.choose(2, 4, 4, 8) if rank < 3 else 2 for _ in range(rank)]
        places = [w * self.choose(1, 2, 3, 8) + self.choose(0, 0, 1, w - 1) for w in window]
        sizes = Sizes(places, window, self.choose(1, 2, 3, 4, 5, 16), self.features())
        sizes.strides = [w + self.choose(0, 0, 0, 1) for w in window]
        return sizes

    def long_sums(self) -> Sizes:
        """Sums of 4,096 or 16,384 terms, and a few more or less."""
        window = self.choose([3, 3], [1, 1], [5, 5], [3], [2, 2, 2])
        wanted = self.choose(4096, 16384) + self.choose(-70, 0, 70)
        sizes = Sizes(
            [], window, round(wanted / math.prod(window)), self.choose(1, 3, 4, 5, 16, 17)
        )
        sizes.places = [w + self.choose(0, 1, 2) for w in window]
        return sizes

    def wide(self) -> Sizes:
        """Many features and terms: gradients of weights from 128 features and 2,048 terms on, and pairs from 32 on."""
        inputs, outputs = (self.choose(31, 32, 33, 64, 127, 128, 129) for _ in range(2))
        places = [self.choose(7, 8, 13, 16, 23, 45), self.choose(7, 8, 13, 16, 23, 46)]
        return Sizes(places, [self.choose(1, 2, 3), self.choose(1, 3, 3)], inputs, outputs)

    # ------------------------------------------------------------------------------------------- the whole of it

    def sizes(self) -> Sizes:
        # The last of these sorts are computed in more ways than others.
        sorts = [
            self.any, self.grouped, self.of_the_batch, self.few_positions, self.images, self.patches, self.long_sums,
            *[self.depthwise] * 3, *[self.points] * 2, *[self.wide] * 3,
        ]  # fmt: skip
        sizes: Sizes = self.chances.choice(sorts)()
        if sizes.batch_groups == 1 and sizes.batch == 1:
            sizes.batch = self.choose(1, 1, 2, 3, 4, 5, 8, 16)
        many = range(sizes.rank)
        usual = self.chances.random() < 0.5
        sizes.strides = sizes.strides or [1 if usual else self.choose(1, 1, 2, 3) for _ in many]
        is_dilated = self.chances.random() < 0.4
        sizes.dilation = [self.choose(1, 2, 2, 3) if is_dilated else 1 for _ in many]
        rare = 0.1 if usual else 0.35
        dilates = self.chances.random() < rare
        sizes.spread = [self.choose(1, 2, 2, 3) if dilates else 1 for _ in many]
        sizes.padding = self.padding(sizes, usual)
        self.shrink(sizes)
        return sizes

    def padding(self, sizes: Sizes, usual: bool) -> list[tuple[int, int]]:
        extents = [(w - 1) * d + 1 for w, d in zip(sizes.window, sizes.dilation, strict=True)]
        if usual:
            same = self.choose(True, True, False)
            return [((e - 1) // 2, e // 2) if same else (0, 0) for e in extents]
        kind = self.choose("up to the window", "negative", "wide", "mixed")
        found = []
        for extent, places in zip(extents, sizes.places, strict=True):
            ends = []
            for _ in range(2):
                way = (
                    self.choose("up to the window", "negative", "wide") if kind == "mixed" else kind
                )
                if way == "negative":
                    ends.append(-self.chances.randint(0, max(0, min(3, (places - 1) // 2))))
                else:
                    most = extent + 3 if way == "wide" else extent - 1
                    ends.append(self.chances.randint(0, most))
            found.append((ends[0], ends[1]))
        return found

    @staticmethod
    def shrink(sizes: Sizes) -> None:
        """Make positions, then the batch and then groups and features fewer until a judge can compute it."""

        def is_too_large() -> bool:
            return sizes.multiplications > _MULTIPLICATIONS or sizes.elements > _ELEMENTS

        def halve() -> bool:
            largest = max(range(sizes.rank), key=lambda n: sizes.places[n])
            if sizes.batch > 4 * sizes.batch_groups:
                sizes.batch = sizes.batch_groups * max(1, sizes.batch // sizes.batch_groups // 2)
            elif sizes.places[largest] > 16 and sizes.places[largest] > 2 * sizes.window[largest]:
                sizes.places[largest] = sizes.places[largest] * 2 // 3
            elif sizes.batch > sizes.batch_groups:
                sizes.batch -= sizes.batch_groups
            elif sizes.places[largest] > max(3, sizes.window[largest]):
                sizes.places[largest] -= 1
            elif sizes.groups > 1:
                sizes.outputs //= sizes.groups
                sizes.groups = max(1, sizes.groups // 2)
                sizes.outputs *= sizes.groups
            elif sizes.outputs > sizes.batch_groups:
                sizes.outputs -= sizes.batch_groups * max(
                    1, sizes.outputs // sizes.batch_groups // 4
                )
            else:
                return False
            return True

        while is_too_large() and halve():
            pass
        # A padding may cut no more than there is.
        for n in range(sizes.rank):
            least = -((sizes.places[n] - 1) // 2)
            low, high = sizes.padding[n]
            sizes.padding[n] = max(low, least), max(high, least)


def _layout(chances: Random, rank: int) -> tuple[str, str, str]:
    """An order of the dimensions: often one that people have."""
    kind = chances.random()
    if (
        kind < 0.75
    ):  # most often with features last, which more ways to compute it take than other orders
        return _USUAL[rank][0] if kind < 0.55 else chances.choice(_USUAL[rank])
    spatial = "DHW"[3 - rank :]

    def mixed(letters: str) -> str:
        return "".join(chances.sample(letters, len(letters)))

    return mixed("NC" + spatial), mixed("IO" + spatial), mixed("NC" + spatial)


def convolution(chances: Random, numbers: Numbers) -> Product:
    """A convolution, its operands' shapes and the lengths of its sums."""
    sizes = Drawn(chances).sizes()
    layout = _layout(chances, sizes.rank)
    spatial = "DHW"[3 - sizes.rank :]
    left = {**dict(zip(spatial, sizes.places, strict=True)), "N": sizes.batch}
    right = {**dict(zip(spatial, sizes.window, strict=True)), "I": sizes.inputs}
    left["C"], right["O"] = sizes.inputs * sizes.groups, sizes.outputs
    result = jnp.dtype(numbers.result) if numbers.result else None
    # JAX takes the numbers of each dimension in the order of the kernel's.
    order = [spatial.index(c) for c in layout[1] if c in spatial]
    strides, padding, spread, dilation = (
        [given[n] for n in order]
        for given in (sizes.strides, sizes.padding, sizes.spread, sizes.dilation)
    )
    flips = chances.random() < 0.15  # a convolution as mathematics has it

    def run(x: Array, w: Array) -> Array:
        if flips:
            w = jnp.flip(w, [layout[1].index(c) for c in spatial])
        return lax.conv_general_dilated(
            x, w, strides, padding, lhs_dilation=spread, rhs_dilation=dilation,
            dimension_numbers=layout, feature_group_count=sizes.groups, batch_group_count=sizes.batch_groups,
            preferred_element_type=result,
        )  # fmt: skip

    outputs = max(1, sizes.outputs // max(sizes.groups, sizes.batch_groups))
    positions = max(1, math.prod(sizes.positions))
    return Product(
        run,
        tuple(left[c] for c in layout[0]),
        tuple(right[c] for c in layout[1]),
        sizes.terms,
        max(outputs * math.prod(sizes.window), sizes.batch * positions),
    )


def _mapped(chances: Random, product: Product) -> Product:
    """The same for a few left operands, or a few of both: JAX makes groups of these."""
    count, both = chances.choice([2, 3]), chances.random() < 0.5
    run = jax.vmap(product.run, in_axes=(0, 0 if both else None))
    right = (count, *product.right) if both else product.right
    return Product(run, (count, *product.left), right, product.terms, product.others * count)


def _of_mixed_types(
    chances: Random, product: Product, values: Values
) -> Callable[[Sequence[Array]], list[Array]]:
    """Integers of two types, which become s32 where they are read."""
    types = chances.choice(_MIXED)
    for shape, dtype in zip((product.left, product.right), types, strict=True):
        values(shape, dtype, few=True)

    def function(*given: Array) -> list[Array]:
        return [product.run(*(g.astype(jnp.int32) for g in given))]

    return function


def make(seed: int) -> Case:
    """A convolution as JAX lowers it, or its gradients."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances = Random(seed)
    mixed = chances.random() < 0.06
    numbers = Numbers("int32", 1 << 30) if mixed else chances.choice(_NUMBERS)
    product = convolution(chances, numbers)
    if chances.random() < 0.12 and math.prod(product.left) + math.prod(product.right) < 20_000:
        product = _mapped(chances, product)
    values = Values(numbers, seed, max(product.terms, product.others))
    if mixed:
        function = _of_mixed_types(chances, product, values)
    else:
        writer = Writer(chances, numbers, product, values)
        function = once(writer, values, product, gradients=0.55)
    return Case(lowered(function, values.arguments, ()), values.arguments)
