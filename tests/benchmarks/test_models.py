"""Whole models and language models: what JAX and PyTorch compute of the same weights is the same."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest

from benchmarks.rivals import layers, llama_cpp, models
from benchmarks.rivals.llama import Llama
from benchmarks.rivals.programs import language
from benchmarks.rivals.programs import models as programs

# Results of f32 are compared with those of the same program in f64, relative to the largest: some dozens of layers,
# each with sums of at most some thousand terms, whose roundings add up like a random walk.
LAYERS, TERMS = 64, 4096
TOLERANCE = LAYERS * np.sqrt(TERMS) * 2.0**-24


def picture(*shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda random: random.standard_normal(shape, np.float32)


def whole(end: int, *shape: int) -> Callable[[np.random.Generator], np.ndarray]:
    return lambda random: random.integers(0, end, shape, np.int32)


SMALL = {
    "vit": (models.vit, [picture(1, 32, 32, 3)]),
    "whisper": (models.whisper, [picture(1, 40, 80), whole(51_865, 1, 6)]),
    "diffusion_unet": (models.diffusion_unet, [picture(1, 16, 16, 3), picture(1, 128)]),
    "unet_3d": (models.unet_3d, [picture(1, 8, 8, 8, 1)]),
    "lstm": (models.lstm, [picture(2, 5, 64)]),
    "graph_network": (models.graph_network, [picture(9, 16), whole(9, 20), whole(9, 20)]),
    "mamba": (models.mamba, [picture(1, 6, 256)]),
}


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


@pytest.fixture
def x64() -> Iterator[None]:
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


def widened(arrays: list[np.ndarray]) -> list[np.ndarray]:
    return [a.astype(np.float64) if a.dtype == np.float32 else a for a in arrays]


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize(
    ("name", "training"),
    # With batch norms a model in training is another one.
    [*((name, False) for name in SMALL), ("unet_3d", True)],
)
def test_a_model_is_the_same_in_both(name: str, training: bool, torch: Any) -> None:
    model, makers = SMALL[name]
    random = np.random.default_rng(0)
    data = [make(random) for make in makers]
    net = layers.Recorder(random)
    model(net, *data, training)
    ours = widened([*data, *net.weights])
    theirs = [
        torch.from_numpy(layers.arranged(kind, array))
        for kind, array in zip([*map(layers.kind_of, data), *net.kinds], ours, strict=True)
    ]
    count = len(data)
    with jax.default_device(jax.devices("cpu")[0]):

        def compute(data: list[Any], weights: list[Any]) -> Any:
            net = layers.Jax(weights)
            result = model(net, *data, training)
            assert next(net.weights, None) is None, "a weight was not taken"
            return result

        got = np.asarray(jax.jit(compute)(ours[:count], ours[count:]))
    expected = np.asarray(model(layers.Torch(theirs[count:]), *theirs[:count], training))
    if got.ndim > 3:
        expected = layers.rearranged(layers.IMAGE, expected)
    assert got.shape == expected.shape
    assert np.abs(got - expected).max() <= TOLERANCE * np.abs(got).max()


@pytest.mark.parametrize(
    ("name", "terms"),
    [
        ("resnet50_f32", 9 * 512),
        ("resnet50_training_f32", 4 * 48 * 48),  # a batch norm's
        ("vit_small_training_f32", 1536),  # a dense layer's: the patches have no gradient
        ("smollm2_training_f32", 49_152),  # the gradient of what scores are computed of
        ("lstm_f32", 256 + 256),
        (
            "resnet50_training_bf16",
            108,
        ),  # sums are of f32: as many layers, each of which is rounded
        ("diffusion_unet_f32", 64 * 64 * 6),  # a group norm's
    ],
)
def test_the_longest_sum_of_a_model_is_known(name: str, terms: int) -> None:
    assert programs.PROGRAMS.programs[name].terms == terms


LLAMA = Llama(layers=2, width=64, heads=4, shared=2, wide=128, tokens=50)


def arrays_of(form: str) -> tuple[list[str], list[np.ndarray]]:
    random = np.random.default_rng(1)
    pairs = list(language.weights(LLAMA, form, random))
    tokens = random.integers(0, LLAMA.tokens, language.START + language.TOKENS, np.int32)
    return [layers.OTHER, *(kind for kind, _ in pairs)], [tokens, *(array for _, array in pairs)]


def scores(form: str, arrays: list[np.ndarray]) -> np.ndarray:
    """On JAX's CPU, twice: the second call goes on with the caches of the first."""
    cpu = jax.devices("cpu")[0]
    placed = jax.device_put(arrays, cpu)
    run = language.jax_steps(LLAMA, form)
    with jax.default_device(cpu):
        first = np.asarray(run(*placed)).astype(np.float64)
        np.testing.assert_array_equal(np.asarray(run(*placed)).astype(np.float64), first)
    return first


def dequantised(form: str, arrays: list[np.ndarray]) -> list[np.ndarray]:
    """The same weights in f64; scales are merged into their matrices."""
    tokens, table, scale, *rest = arrays
    wide = [np.asarray(a).astype(np.float64) for a in (table, scale, *rest)]
    merged: list[np.ndarray] = [tokens, wide[0] * wide[1][:, None]]
    remaining = iter(wide[2:])
    for array in remaining:
        if array.ndim < 2:
            merged.append(array)
            continue
        of_matrix = next(remaining)
        rows = np.repeat(of_matrix, language.GROUP, 0) if form == "s4" else of_matrix
        merged.append(array * rows)
    return merged


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("form", ["s8", "s4"])
def test_scales_are_those_of_their_columns(form: str) -> None:
    _, arrays = arrays_of(form)
    exact = scores("f32", dequantised(form, arrays))
    # A bf16 has 8 bits, and some twenty roundings stand one behind the other.
    assert np.abs(scores(form, arrays) - exact).max() <= 20 * 2.0**-8 * np.abs(exact).max()


@pytest.mark.parametrize("form", ["f32", "bf16", "s8"])
def test_tokens_have_the_same_scores_in_both(form: str, torch: Any) -> None:
    kinds, arrays = arrays_of(form)
    got = scores(form, arrays)
    eps = 2.0**-24 if form == "f32" else 2.0**-8

    def tensor(kind: str, array: Any) -> Any:
        array = layers.arranged(kind, array)
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)

    placed = [tensor(kind, array) for kind, array in zip(kinds, arrays, strict=True)]
    run = language.torch_steps(LLAMA, form)
    expected = run(*placed).double().numpy()
    assert np.abs(got - expected).max() <= 20 * np.sqrt(LLAMA.wide) * eps * np.abs(got).max()


def test_bytes_are_those_of_the_weights() -> None:
    for form in language.BITS:
        small = dataclasses.replace(LLAMA, layers=3)
        pairs = list(language.weights(small, form, np.random.default_rng(0)))
        bits = {"int4": 4}
        read = sum(
            a.size * bits.get(a.dtype.name, 8 * a.dtype.itemsize) / 8
            for _, a in pairs
            if a.ndim == 2
        )
        assert language.least_bytes(small, form) == language.TOKENS * read


@pytest.mark.parametrize("bits", [4, 8])
def test_blocks_are_scales_and_numbers(bits: int) -> None:
    random = np.random.default_rng(2)
    end = 1 << (bits - 1)
    values = random.integers(-end, end, (3, 64), np.int8)
    scales = 2.0 ** random.integers(-9, 3, (3, 2))
    made = llama_cpp.blocks(values, scales, bits).reshape(3, 2, -1)
    np.testing.assert_array_equal(made[..., :2].copy().view(np.float16)[..., 0], scales)
    packed = made[..., 2:]
    if bits == 4:
        packed = np.concatenate([packed & 15, packed >> 4], -1).astype(np.int8) - 8
    np.testing.assert_array_equal(packed.reshape(3, 64).view(np.int8), values)


def test_rotating_neighbours_of_interleaved_rows_is_rotating_halves() -> None:
    random = np.random.default_rng(3)
    heads, width = 2, 8
    x = random.standard_normal(heads * width)
    angles = np.repeat(random.standard_normal(width // 2)[None], heads, 0)
    first, second = np.split(x.reshape(heads, width), 2, -1)
    halves = np.concatenate(
        [first * np.cos(angles) - second * np.sin(angles), second * np.cos(angles) + first * np.sin(angles)], -1
    )  # fmt: skip
    even, odd = np.moveaxis(llama_cpp.interleaved(x, heads).reshape(heads, -1, 2), -1, 0)
    neighbours = np.stack(
        [
            even * np.cos(angles) - odd * np.sin(angles),
            odd * np.cos(angles) + even * np.sin(angles),
        ],
        -1,
    )
    np.testing.assert_array_equal(neighbours.ravel(), llama_cpp.interleaved(halves.ravel(), heads))
