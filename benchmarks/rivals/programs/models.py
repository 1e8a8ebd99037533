"""Whole models, forward and in training, with random weights.

A training step returns the loss and all weights after a step of gradient descent. In bf16 forward passes have weights
and data of bf16, and training keeps its weights in f32 and computes products in bf16, as flax's ``dtype`` and PyTorch's
autocast do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from .. import models
from ..layers import IMAGE, OTHER, Jax, Model, Recorder, Torch, arranged, kind_of, rearranged
from ..program import Arrangement, Registry

PROGRAMS = Registry("whole models", __name__)
# Of gradient descent: so large that the gradients, and not the weights alone, decide what is compared.
RATE: Final = 1.0
BOTH: Final = ("f32", "bf16")

Draw = Callable[[np.random.Generator], list[np.ndarray]]
Loss = Callable[[Any, Any, Any], Any]  # net, results, target


@dataclass(frozen=True)
class Task:
    """A model, and what is drawn for it: data and, where it is trained (``loss``), a target. ``half``: in bf16."""

    model: Model
    data: Draw
    target: Draw
    loss: Loss | None
    half: bool

    def recorded(self, data: Sequence[Any], random: np.random.Generator | None = None) -> Recorder:
        net = Recorder(random, self.loss is not None)
        self.model(net, *data, self.loss is not None)
        return net

    def inputs(self, random: np.random.Generator) -> tuple[Any, ...]:
        """Data, target, weights."""
        data = self.data(random)
        weights = self.recorded(data, random).weights
        target = self.target(random) if self.loss else []
        if not self.half or self.loss:
            return *data, *target, *weights
        import ml_dtypes

        half = ml_dtypes.bfloat16
        return tuple(a.astype(half) if a.dtype == np.float32 else a for a in (*data, *weights))

    def settings(self) -> dict[str, Any]:
        """What :meth:`Registry.add` is told beside the inputs."""
        random = np.random.default_rng(0)
        data = self.data(random)
        net = self.recorded(data)
        given = [*data, *(self.target(random) if self.loss else [])]
        kinds = [*map(kind_of, given), *net.kinds]

        def inputs(arrays: Sequence[Any]) -> Sequence[Any]:
            return [arranged(kind, array) for kind, array in zip(kinds, arrays, strict=True)]

        def results(arrays: list[np.ndarray]) -> list[np.ndarray]:
            of_results = (
                [OTHER, *net.kinds] if self.loss else [IMAGE if arrays[0].ndim > 3 else OTHER]
            )
            return [rearranged(kind, array) for kind, array in zip(of_results, arrays, strict=True)]

        return {
            "jax": lambda: self.in_jax(len(given)),
            "torch": lambda: self.in_torch(len(given)),
            "arrangements": {"torch": Arrangement(inputs, results)},
            "flops": 2 * net.products * (3 if self.loss else 1),
            # Products of bf16 are added up in f32: a layer's results are rounded, and not its sums, one layer after
            # the other.
            "terms": net.layers if self.half else net.terms,
            "unit": "bf16" if self.half else "f32",
            "rounding": "bfloat16" if self.half else "",
        }

    def in_jax(self, given: int) -> Callable[..., Any]:
        """``given``: how many of the arrays are not weights."""
        loss = self.loss
        if loss is None:
            return lambda *arrays: self.model(Jax(arrays[given:]), *arrays[:given], False)
        import jax

        def of_weights(weights: Sequence[Any], *values: Any) -> Any:
            *data, target = values
            return loss(Jax([]), self.model(Jax(weights, self.half), *data, True), target)

        def step(*arrays: Any) -> Any:
            weights = list(arrays[given:])
            value, gradients = jax.value_and_grad(of_weights)(weights, *arrays[:given])
            return value, [w - RATE * g for w, g in zip(weights, gradients, strict=True)]

        return step

    def in_torch(self, given: int) -> Callable[..., Any]:
        import torch

        def forward(*arrays: Any) -> Any:
            with torch.inference_mode():
                return self.model(Torch(arrays[given:]), *arrays[:given], False)

        loss = self.loss
        if loss is None:
            return forward

        def step(*arrays: Any) -> Any:
            weights = [w.detach().requires_grad_() for w in arrays[given:]]
            *data, target = arrays[:given]
            with torch.autocast("cpu", torch.bfloat16, enabled=self.half):
                results = self.model(Torch(weights), *data, True)
            value = loss(Torch([]), results, target)
            gradients = torch.autograd.grad(value, weights)
            with torch.no_grad():
                pairs = zip(weights, gradients, strict=True)
                return value, [torch.add(w, g, alpha=-RATE) for w, g in pairs]

        return step


def add(
    name: str,
    model: Model,
    description: str,
    data: Draw,
    target: Draw,
    loss: Loss,
    types: Sequence[str] = ("f32",),
    trained_with: Draw | None = None,
) -> None:
    """The model forward and in a training step, in each of the types."""
    for type_name in types:
        forward = Task(model, data, target, None, type_name == "bf16")
        training = replace(forward, data=trained_with or data, loss=loss)
        PROGRAMS.add(f"{name}_{type_name}", description, forward.inputs, **forward.settings())
        description_of_step = f"{description}: a training step"
        PROGRAMS.add(
            f"{name}_training_{type_name}",
            description_of_step,
            training.inputs,
            **training.settings(),
        )


def normal(*shapes: tuple[int, ...]) -> Draw:
    return lambda random: [random.standard_normal(shape, np.float32) for shape in shapes]


def integers(end: int, *shapes: tuple[int, ...]) -> Draw:
    return lambda random: [random.integers(0, end, shape, np.int32) for shape in shapes]


def both(first: Draw, second: Draw) -> Draw:
    return lambda random: [*first(random), *second(random)]


def cross_entropy(net: Any, results: Any, labels: Any) -> Any:
    return net.cross_entropy(results, labels)


def squares(net: Any, results: Any, target: Any) -> Any:
    return ((results - target) ** 2).mean()


IMAGE_224: Final = normal((1, 224, 224, 3))
CLASSES: Final = models.CLASSES

add(
    "resnet50", models.resnet50, "ResNet-50, an image of 224x224 (training: 4 of 96x96)",
    IMAGE_224, integers(CLASSES, (4,)), cross_entropy, BOTH, normal((4, 96, 96, 3)),
)  # fmt: skip
add(
    "mobilenet_v2", models.mobilenet_v2, "MobileNetV2, an image of 224x224 (training: 8 of 96x96)",
    IMAGE_224, integers(CLASSES, (8,)), cross_entropy, BOTH, normal((8, 96, 96, 3)),
)  # fmt: skip
add(
    "vit_small", models.vit, "ViT-S/16, an image of 224x224 (training: 2)",
    IMAGE_224, integers(CLASSES, (2,)), cross_entropy, BOTH, normal((2, 224, 224, 3)),
)  # fmt: skip
add(
    "bert_base", models.bert, "BERT-base, 128 tokens",
    integers(30_522, (1, 128)), integers(2, (1,)), cross_entropy, BOTH,
)  # fmt: skip
add(
    "smollm2", models.smollm2, "SmolLM2-135M, 128 tokens at once",
    integers(49_152, (1, 128)), integers(49_152, (1, 128)), cross_entropy, BOTH,
)  # fmt: skip
add(
    "whisper_tiny", models.whisper, "Whisper-tiny, 10 s of sound (1,000 frames of 80) and 32 tokens",
    both(normal((1, 1000, 80)), integers(51_865, (1, 32))), integers(51_865, (1, 32)), cross_entropy,
)  # fmt: skip
add(
    "diffusion_unet", models.diffusion_unet, "UNet of a diffusion model, an image of 64x64 (training: 2)",
    normal((1, 64, 64, 3), (1, 128)), normal((2, 64, 64, 3)), squares,
    trained_with=normal((2, 64, 64, 3), (2, 128)),
)  # fmt: skip
add(
    "unet_3d", models.unet_3d, "U-Net in three dimensions, a volume of 48x48x48",
    normal((1, 48, 48, 48, 1)), normal((1, 48, 48, 48, 2)), squares,
)  # fmt: skip
add(
    "lstm", models.lstm, "LSTM of two layers of 256, 32 sequences of 100 positions",
    normal((32, 100, 64)), integers(10, (32, 100)), cross_entropy,
)  # fmt: skip
add(
    "graph_network", models.graph_network, "graph network, 5,000 nodes of 16 features and 40,000 edges",
    both(normal((5000, 16)), integers(5000, (40_000,), (40_000,))), integers(10, (5000,)), cross_entropy,
)  # fmt: skip
add(
    "mamba", models.mamba, "four layers of Mamba's selective scan, 256 positions of 256",
    normal((1, 256, 256)), normal((1, 256, 256)), squares,
)  # fmt: skip
