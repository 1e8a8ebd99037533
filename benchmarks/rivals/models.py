"""Whole models, each written once on the layers that users of JAX and PyTorch have (:mod:`.layers`).

A model is a function of ``net``, which has the layers and hands out the weights, of its data, and of whether it is in
training: then a batch norm takes the statistics of its batch, else they are weights.
"""

from __future__ import annotations

from typing import Any, Final

CLASSES: Final = 1000


def resnet50(net: Any, x: Any, training: bool) -> Any:
    def block(x: Any, features: int, stride: int) -> Any:
        y = net.relu(net.batch_norm(net.conv(x, features, 1), training))
        y = net.relu(net.batch_norm(net.conv(y, features, 3, stride), training))
        y = net.batch_norm(net.conv(y, 4 * features, 1), training)
        if stride > 1 or (features == 64 and not seen[0]):
            x = net.batch_norm(net.conv(x, 4 * features, 1, stride), training)
        seen[0] = True
        return net.relu(x + y)

    seen = [False]
    x = net.max_pool(net.relu(net.batch_norm(net.conv(x, 64, 7, 2), training)))
    for stage, depth in enumerate((3, 4, 6, 3)):
        for index in range(depth):
            x = block(x, 64 << stage, 2 if stage and not index else 1)
    return net.dense(net.mean(x), CLASSES)


# Of each stage: how much wider its blocks are inside, features, blocks, the first block's stride.
MOBILENET: Final = (
    (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
)  # fmt: skip


def mobilenet_v2(net: Any, x: Any, training: bool) -> Any:
    def layer(x: Any, features: int, size: int, stride: int = 1, groups: int = 1) -> Any:
        return net.batch_norm(net.conv(x, features, size, stride, groups), training)

    x, width = net.relu6(layer(x, 32, 3, 2)), 32
    for factor, features, depth, first in MOBILENET:
        for index in range(depth):
            stride, wide = 1 if index else first, factor * width
            y = net.relu6(layer(x, wide, 1)) if factor > 1 else x
            y = layer(net.relu6(layer(y, wide, 3, stride, wide)), features, 1)
            x, width = (x + y if stride == 1 and width == features else y), features
    return net.dense(net.mean(net.relu6(layer(x, 1280, 1))), CLASSES)


def encoder_layer(
    net: Any, x: Any, heads: int, wide: int, before: bool = True, causal: bool = False
) -> Any:
    """A transformer's layer; ``before``: norms stand before its parts (ViT, Whisper), else behind them (BERT)."""
    width = x.shape[-1]

    def attend(x: Any) -> Any:
        q, k, v = (net.dense(x, width) for _ in range(3))
        return net.dense(net.attention(q, k, v, heads, causal), width)

    def multiply(x: Any) -> Any:
        return net.dense(net.gelu(net.dense(x, wide)), width)

    for part in (attend, multiply):
        x = x + part(net.layer_norm(x)) if before else net.layer_norm(x + part(x))
    return x


def vit(net: Any, x: Any, training: bool) -> Any:
    """ViT-S/16: 12 layers, width 384, 6 heads."""
    x = net.sequence(net.conv(x, 384, 16, 16, bias=True, padding=0))
    x = x + net.parameter(1, x.shape[1], 384)
    for _ in range(12):
        x = encoder_layer(net, x, 6, 1536)
    return net.dense(net.mean(net.layer_norm(x)), CLASSES)


def bert(net: Any, tokens: Any, training: bool) -> Any:
    """BERT-base: 12 layers, width 768, 12 heads; scores of two classes."""
    x = net.embed(tokens, 30_522, 768) + net.parameter(1, tokens.shape[1], 768)
    x = net.layer_norm(x)
    for _ in range(12):
        x = encoder_layer(net, x, 12, 3072, before=False)
    return net.dense(net.mean(x), 2)


def whisper(net: Any, sound: Any, tokens: Any, training: bool) -> Any:
    """Whisper-tiny: four layers of an encoder of sound and four of a decoder, width 384, 6 heads."""
    width, heads, wide = 384, 6, 1536
    x = net.gelu(net.conv(sound, width, 3, bias=True))
    x = net.sequence(net.gelu(net.conv(x, width, 3, 2, bias=True)))
    x = x + net.parameter(1, x.shape[1], width)
    for _ in range(4):
        x = encoder_layer(net, x, heads, wide)
    heard = net.layer_norm(x)
    y = net.embed(tokens, 51_865, width) + net.parameter(1, tokens.shape[1], width)
    for _ in range(4):
        y = decoder_layer(net, y, heard, heads, wide)
    return net.dense(net.layer_norm(y), 51_865, bias=False)


def decoder_layer(net: Any, y: Any, heard: Any, heads: int, wide: int) -> Any:
    width = y.shape[-1]

    def attend(y: Any, other: Any, causal: bool) -> Any:
        q, k, v = net.dense(y, width), net.dense(other, width), net.dense(other, width)
        return net.dense(net.attention(q, k, v, heads, causal), width)

    z = net.layer_norm(y)
    y = y + attend(z, z, True)
    y = y + attend(net.layer_norm(y), heard, False)
    return y + net.dense(net.gelu(net.dense(net.layer_norm(y), wide)), width)


def smollm2(net: Any, tokens: Any, training: bool) -> Any:
    """SmolLM2-135M: 30 layers of Llama's kind, width 576, 9 heads, 3 of keys and values."""
    x = net.embed(tokens, 49_152, 576)
    for _ in range(30):
        y = net.rms_norm(x)
        q, k, v = (net.dense(y, features, bias=False) for features in (576, 192, 192))
        y = net.attention(net.rotate(q, 9), net.rotate(k, 3), v, 9, causal=True)
        x = x + net.dense(y, 576, bias=False)
        y = net.rms_norm(x)
        gate = net.silu(net.dense(y, 1536, bias=False))
        x = x + net.dense(gate * net.dense(y, 1536, bias=False), 576, bias=False)
    return net.dense(net.rms_norm(x), 49_152, bias=False)


def diffusion_unet(net: Any, x: Any, time: Any, training: bool) -> Any:
    """Noise of an image: three levels of 64, 128 and 256 features, attention in the last."""
    time = net.dense(net.silu(net.dense(time, 256)), 256)

    def residual(x: Any, features: int, width: int) -> Any:
        y = net.conv(net.silu(net.group_norm(x, 32)), features, 3, bias=True)
        y = net.add_features(y, net.dense(net.silu(time), features))
        y = net.conv(net.silu(net.group_norm(y, 32)), features, 3, bias=True)
        return y + (x if features == width else net.conv(x, features, 1, bias=True))

    def attend(x: Any, features: int) -> Any:
        y = net.sequence(net.group_norm(x, 32))
        q, k, v = (net.dense(y, features) for _ in range(3))
        return x + net.image(net.dense(net.attention(q, k, v, 4), features), x)

    x, width, kept = net.conv(x, 64, 3, bias=True), 64, []
    for level, features in enumerate((64, 128, 256)):
        x = net.conv(x, width, 3, 2, bias=True) if level else x
        x, width = residual(x, features, width), features
        x = attend(x, width) if level == 2 else x
        kept.append((x, width))
    x = residual(attend(residual(x, width, width), width), width, width)
    for level in (2, 1, 0):
        other, more = kept[level]
        x = net.concatenate(x, other)
        x, width = residual(x, more, width + more), more
        x = net.conv(net.upsample(x), width, 3, bias=True) if level else x
    return net.conv(net.silu(net.group_norm(x, 32)), 3, 3, bias=True)


def unet_3d(net: Any, x: Any, training: bool) -> Any:
    """Segmentation of a volume in three levels of 16, 32 and 64 features."""

    def twice(x: Any, features: int) -> Any:
        for _ in range(2):
            x = net.relu(net.batch_norm(net.conv(x, features, 3), training))
        return x

    kept = []
    for features in (16, 32):
        x = twice(x, features)
        kept.append(x)
        x = net.max_pool(x)
    x = twice(x, 64)
    for features in (32, 16):
        x = twice(net.concatenate(net.conv(net.upsample(x), features, 1), kept.pop()), features)
    return net.conv(x, 2, 1, bias=True)


def lstm(net: Any, x: Any, training: bool) -> Any:
    """Two layers of 256, a score of ten classes for each position."""
    return net.dense(net.lstm(net.lstm(x, 256), 256), 10)


def graph_network(net: Any, nodes: Any, senders: Any, receivers: Any, training: bool) -> Any:
    """Three rounds of messages of 64 features along edges, residual."""
    x = net.dense(nodes, 64)
    for _ in range(3):
        both = net.concatenate(net.rows(x, senders), net.rows(x, receivers))
        message = net.dense(net.silu(net.dense(both, 64)), 64)
        total = net.sums(message, receivers, nodes.shape[0])
        x = x + net.dense(net.silu(net.dense(net.concatenate(x, total), 64)), 64)
    return net.dense(x, 10)


def mamba(net: Any, x: Any, training: bool) -> Any:
    """Four layers of selective scans: width 256, 512 inside, 16 states."""
    for _ in range(4):
        y = net.dense(net.rms_norm(x), 1024, bias=False)
        y, gate = net.split(y, 512, 512)
        step, into, out = net.split(net.dense(net.silu(y), 48, bias=False), 16, 16, 16)
        step = net.softplus(net.dense(step, 512))
        y = net.selective_scan(y, step, into, out, net.parameter(512, 16, mean=-1.0))
        x = x + net.dense(y * net.silu(gate), 256, bias=False)
    return net.dense(net.rms_norm(x), 256, bias=False)
