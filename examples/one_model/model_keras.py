"""The model in Keras: its layers, connected."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers
from weights import EPSILON, Sizes, Weights


class Embeddings(layers.Layer):
    """Token and position embeddings; ``logits`` uses those of the tokens again."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(name="embeddings")
        self.tokens = self.add_weight(shape=(sizes.vocabulary, sizes.width), name="tokens")
        self.positions = self.add_weight(shape=(sizes.length, sizes.width), name="positions")

    def call(self, tokens: keras.KerasTensor) -> keras.KerasTensor:
        return keras.ops.take(self.tokens, tokens, axis=0) + self.positions

    def logits(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return keras.ops.matmul(x, keras.ops.transpose(self.tokens))


class Logits(layers.Layer):
    def __init__(self, embeddings: Embeddings) -> None:
        super().__init__(name="logits")
        self.embeddings = embeddings

    def call(self, x: keras.KerasTensor) -> keras.KerasTensor:
        return self.embeddings.logits(x)


def _gelu(x: keras.KerasTensor) -> keras.KerasTensor:
    return keras.activations.gelu(x, approximate=True)


def make_model(weights: Weights, sizes: Sizes) -> keras.Model:
    """int32[batch, length] -> f32[batch, length, vocabulary], with these weights."""
    embeddings = Embeddings(sizes)
    tokens = keras.Input((sizes.length,), sizes.batch, dtype="int32")
    x = embeddings(tokens)
    for n in range(sizes.layers):
        layer = f"layer{n}_"
        y = layers.LayerNormalization(epsilon=EPSILON, name=f"{layer}attention_norm")(x)
        attention = layers.MultiHeadAttention(
            sizes.heads, sizes.head_width, name=f"{layer}attention"
        )
        x = layers.Add()([x, attention(y, y, use_causal_mask=True)])
        y = layers.LayerNormalization(epsilon=EPSILON, name=f"{layer}network_norm")(x)
        y = layers.Dense(4 * sizes.width, activation=_gelu, name=f"{layer}up")(y)
        x = layers.Add()([x, layers.Dense(sizes.width, name=f"{layer}down")(y)])
    x = layers.LayerNormalization(epsilon=EPSILON, name="norm")(x)
    model = keras.Model(tokens, Logits(embeddings)(x))
    for one in model.layers:
        values = _weights_of(one.name, weights, sizes)
        if values:
            one.set_weights(values)
    return model


def _weights_of(name: str, weights: Weights, sizes: Sizes) -> list[np.ndarray]:
    """The weights of the Keras layer ``name``, in its order and its shapes."""
    if name == "embeddings":
        return [weights["tokens"], weights["positions"]]
    if name == "norm":
        return [weights["scale"], weights["bias"]]
    layer, _, part = name.partition("_")
    if part.endswith("_norm"):
        return [weights[f"{layer}.{part}.scale"], weights[f"{layer}.{part}.bias"]]
    if part in ("up", "down"):
        return [weights[f"{layer}.{part}"], weights[f"{layer}.{part}_bias"]]
    if part != "attention":
        return []
    heads = (sizes.heads, sizes.head_width)
    values = []
    for projection in ("query", "key", "value"):
        values.append(weights[f"{layer}.{projection}"].reshape(sizes.width, *heads))
        values.append(weights[f"{layer}.{projection}_bias"].reshape(heads))
    values.append(weights[f"{layer}.output"].reshape(*heads, sizes.width))
    return [*values, weights[f"{layer}.output_bias"]]
