"""Convolutions and their gradients: generated ones, oneDNN's, PyTorch's and XLA:CPU's, in turns.

python -m benchmarks.convolutions                          every class of shapes, f32
python -m benchmarks.convolutions --types bf16,f16,s8      other element types
python -m benchmarks.convolutions --only dilated,depthwise the classes whose names have one of these words
python -m benchmarks.convolutions --cpu x86-64-v3          all of them kept to the instructions of another CPU
python -m benchmarks.convolutions --threads 1 --clock cpu  of processor time, on machines that do other things too
python -m benchmarks.convolutions --json out.json

Figures are GFLOP/s (Gop/s of integers) of the fastest of several calls; products with the padding are counted.
"library" is oneDNN through the library call, "generated" what the compiler makes without oneDNN, "chosen" what it takes
by itself. The ratio is that of "chosen" to the best of PyTorch, XLA:CPU and oneDNN. PyTorch gets its arrays channels
last where the class has them so. s8 is by s8 with results in s32; PyTorch's is of bytes with a zero point of 128, with
results in f32, of a kernel that it has laid out before.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from unittest import mock

from .products import Step, client, measure, restrict

RESULTS: Final = {"s8": "s32"}
NUMPY_NAMES: Final = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64"}


@dataclass(frozen=True)
class Case:
    """A forward convolution of [batch, *sizes] with ``features``, and which of it is computed.

    ``kind``: "forward", or the gradient of the "input" or of the "weights". ``last``: whether features are the minor
    dimension (the kernel's are [*spatial, in, out] then, else [out, in, *spatial]). ``transposed``: the forward
    direction dilates the input by the stride, as ``lax.conv_transpose`` and ``ConvTranspose`` do.
    """

    name: str
    batch: int
    sizes: tuple[int, ...]
    features: tuple[int, int]
    kernel: tuple[int, ...]
    stride: int = 1
    dilation: int = 1
    groups: int = 1
    kind: str = "forward"
    last: bool = True
    transposed: bool = False
    padded: bool = True

    @property
    def padding(self) -> list[tuple[int, int]]:
        """What keeps the sizes at stride 1, and multiplies them by the stride of a transposed one ("SAME" of
        ``lax.conv_transpose``).
        """
        if not self.padded:
            return [(0, 0)] * len(self.sizes)
        around = [((k - 1) * self.dilation) for k in self.kernel]
        if self.transposed:
            both = [k + self.stride - 2 for k in self.kernel]
            lows = [min(k - 1, -(-b // 2)) for k, b in zip(self.kernel, both, strict=True)]
            return [(low, b - low) for low, b in zip(lows, both, strict=True)]
        return [(a // 2, a - a // 2) for a in around]

    @property
    def output_sizes(self) -> tuple[int, ...]:
        found = []
        for n, k, (low, high) in zip(self.sizes, self.kernel, self.padding, strict=True):
            extent = (k - 1) * self.dilation + 1
            if self.transposed:
                found.append((n - 1) * self.stride + 1 + low + high - extent + 1)
            else:
                found.append((n + low + high - extent) // self.stride + 1)
        return tuple(found)

    @property
    def multiply_adds(self) -> int:
        """Those of the direct way; what meets the zeros between the elements of a dilated input does not count."""
        positions = math.prod(self.sizes if self.transposed else self.output_sizes)
        ins, outs = self.features
        return self.batch * positions * math.prod(self.kernel) * outs * (ins // self.groups)

    def shapes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The shapes of the input, the kernel and the result."""
        ins, outs = self.features
        if self.last:
            return (
                (self.batch, *self.sizes, ins),
                (*self.kernel, ins // self.groups, outs),
                (self.batch, *self.output_sizes, outs),
            )
        return (
            (self.batch, ins, *self.sizes),
            (outs, ins // self.groups, *self.kernel),
            (self.batch, outs, *self.output_sizes),
        )


def cases() -> list[Case]:
    """The classes of shapes, from the models that have them."""
    return [
        Case("2d 3x3 128", 1, (64, 64), (128, 128), (3, 3)),
        Case("2d 3x3 64", 8, (56, 56), (64, 64), (3, 3)),
        Case("2d 3x3 512 small", 8, (7, 7), (512, 512), (3, 3)),
        Case("2d 1x1", 4, (28, 28), (256, 512), (1, 1)),
        Case("2d 3x3 stride 2", 4, (56, 56), (128, 128), (3, 3), stride=2),
        Case("2d 7x7 stride 2 of 3", 4, (112, 112), (3, 64), (7, 7), stride=2),
        Case("2d 3x3 first 3", 8, (32, 32), (3, 32), (3, 3)),
        Case("2d 3x3 to 3", 4, (64, 64), (64, 3), (3, 3)),
        Case("2d 3x3 dilated 2", 4, (32, 32), (128, 128), (3, 3), dilation=2),
        Case("2d 3x3 grouped 4", 4, (32, 32), (128, 128), (3, 3), groups=4),
        Case("2d 3x3 grouped 32", 4, (32, 32), (256, 256), (3, 3), groups=32),
        Case("2d 3x3 depthwise", 4, (56, 56), (128, 128), (3, 3), groups=128),
        Case("2d 7x7 depthwise", 4, (28, 28), (192, 192), (7, 7), groups=192),
        Case("2d 4x4 patches", 4, (112, 112), (3, 96), (4, 4), stride=4, padded=False),
        Case("2d 16x16 patches", 2, (224, 224), (3, 384), (16, 16), stride=16, padded=False),
        Case("2d 4x4 transposed 2", 4, (16, 16), (128, 64), (4, 4), stride=2, transposed=True),
        Case("1d 3 dilated 8", 4, (2048,), (64, 64), (3,), dilation=8),
        Case("1d 9", 4, (1024,), (128, 128), (9,)),
        Case("1d 4 depthwise", 2, (1024,), (768, 768), (4,), groups=768),
        Case("1d 16 transposed 8", 2, (256,), (128, 64), (16,), stride=8, transposed=True),
        Case("3d 3x3x3", 1, (16, 32, 32), (32, 32), (3, 3, 3)),
        Case("3d 3x3x3 of 1", 1, (32, 32, 32), (1, 16), (3, 3, 3)),
        Case("2d 3x3 128 first", 1, (64, 64), (128, 128), (3, 3), last=False),
        Case("2d 3x3 mnist first", 32, (28, 28), (1, 32), (3, 3), last=False),
        Case("2d 3x3 depthwise first", 4, (56, 56), (128, 128), (3, 3), groups=128, last=False),
        Case("1d 3 dilated 8 first", 4, (2048,), (64, 64), (3,), dilation=8, last=False),
    ]  # fmt: skip


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--types", default="f32", help="f32, f64, bf16, f16, s8")
    parser.add_argument("--kinds", default="forward,input,weights")
    parser.add_argument("--only", default="", help="words of the classes' names")
    parser.add_argument("--cpu", default="host")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--clock", choices=("wall", "cpu"), default="wall")
    parser.add_argument("--seconds", type=float, default=0.2, help="for each competitor")
    parser.add_argument("--without", default="", help="competitors to leave out")
    parser.add_argument("--json", default="")
    options = parser.parse_args()
    if options.clock == "cpu" and options.threads != 1:
        parser.error("--clock cpu needs --threads 1")
    return options


def program(case: Case, dtype: str) -> tuple[Callable[..., Any], list[Any]]:
    """The JAX function of a case, and its arguments as NumPy arrays."""
    import ml_dtypes
    import numpy as np
    from jax import lax

    rank = len(case.sizes)
    letters = "DHW"[-rank:]
    if case.last:
        numbers = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    else:
        numbers = (f"NC{letters}", f"OI{letters}", f"NC{letters}")
    ones = (1,) * rank
    wide = np.int32 if dtype == "s8" else None

    def forward(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w,
            window_strides=ones if case.transposed else (case.stride,) * rank,
            padding=case.padding,
            lhs_dilation=(case.stride,) * rank if case.transposed else ones,
            rhs_dilation=(case.dilation,) * rank,
            dimension_numbers=numbers,
            feature_group_count=case.groups,
            preferred_element_type=wide,
        )  # fmt: skip

    random = np.random.default_rng(0)
    shapes = case.shapes()

    def values(shape: Sequence[int]) -> Any:
        if dtype == "s8":
            return random.integers(-100, 100, shape).astype(np.int8)
        if dtype == "bf16":
            return random.standard_normal(shape, np.float32).astype(ml_dtypes.bfloat16)
        return random.standard_normal(shape).astype(NUMPY_NAMES[dtype])

    import jax

    jax.config.update("jax_enable_x64", True)
    x, w, y = (values(shape) for shape in shapes)
    if case.kind == "forward":
        return forward, [x, w]
    if case.kind == "input":
        return lambda w, y: jax.linear_transpose(lambda x: forward(x, w), x)(y)[0], [w, y]
    return lambda x, y: jax.linear_transpose(lambda w: forward(x, w), w)(y)[0], [x, y]


def ours(case: Case, dtype: str, cpu: str, way: str) -> Step:
    """Compiled by tripont. ``way``: "generated", "library" or "chosen"."""
    import jax
    from tripont.core import _tripont
    from tripont.core.compiler.compile import compile_program
    from tripont.core.compiler.passes.library import convolution_costs

    function, values = program(case, dtype)
    text = jax.jit(function).trace(*values).lower(lowering_platforms=("cpu",)).as_text()
    options = {"cpu": cpu, "onednn": "0" if way == "generated" else "1"}
    if way == "library":
        with mock.patch.object(convolution_costs, "prefers_generated", return_value=False):
            artifact = compile_program(text.encode(), "mlir", b"", options)
    else:
        artifact = compile_program(text.encode(), "mlir", b"", options)
    executable = _tripont.Executable.load(artifact)
    device = client().devices[0]
    buffers = [_tripont.Buffer.from_array(v, device) for v in values]

    def step() -> None:
        (result,) = executable.execute(device, buffers)
        result.wait()

    return step


def torch_step(case: Case, dtype: str) -> Step | None:
    """The same by PyTorch, eagerly."""
    try:
        import torch
    except ImportError:
        return None
    padding = torch_padding(case)
    if padding is None or (case.transposed and case.groups > 1):
        return None
    if dtype == "s8":
        return quantized_torch_step(case, [low for low, _ in padding])
    if dtype not in NUMPY_NAMES:
        return None
    to = getattr(torch, NUMPY_NAMES[dtype])
    arrays = [array.to(to) for array in torch_arrays(case)]
    if case.transposed:  # (Its kernels are [in, out, *spatial].)
        arrays[1] = arrays[1].transpose(0, 1).contiguous()
    if case.last and len(case.sizes) > 1:
        arrays = [array.contiguous(memory_format=last_format(case)) for array in arrays]
    x, w, y = arrays
    rank = len(case.sizes)
    lows = [low for low, _ in padding]
    more = [extra for _, extra in padding]
    settings = [[case.stride] * rank, lows, [case.dilation] * rank, case.transposed, more]
    if case.kind == "forward":
        return lambda: torch.ops.aten.convolution(x, w, None, *settings, case.groups)
    mask = [case.kind == "input", case.kind == "weights", False]

    def backward() -> Any:
        return torch.ops.aten.convolution_backward(y, x, w, None, *settings, case.groups, mask)

    return backward


def torch_padding(case: Case) -> list[tuple[int, int]] | None:
    """PyTorch's padding of both sides of each dimension, and that of the result of a transposed convolution; None where
    PyTorch has none that is the same.
    """
    if not case.transposed:
        return None if any(a != b for a, b in case.padding) else [(a, 0) for a, _ in case.padding]
    extents = [(k - 1) * case.dilation for k in case.kernel]
    found = [(e - a, b - a) for e, (a, b) in zip(extents, case.padding, strict=True)]
    return None if any(low < 0 or not 0 <= more < case.stride for low, more in found) else found


def torch_arrays(case: Case) -> list[Any]:
    """The input, the kernel and the result of a case as PyTorch orders their dimensions."""
    import numpy as np
    import torch

    rank = len(case.sizes)
    arrays = []
    for which, shape in enumerate(case.shapes()):
        array = torch.from_numpy(np.random.default_rng(which).standard_normal(shape))
        if case.last and which == 1:
            array = array.permute(rank + 1, rank, *range(rank))
        elif case.last:
            array = array.permute(0, rank + 1, *range(1, rank + 1))
        arrays.append(array)
    return arrays


def last_format(case: Case) -> Any:
    """PyTorch's name of the order of dimensions with features last."""
    import torch

    return torch.channels_last if len(case.sizes) == 2 else torch.channels_last_3d


def quantized_torch_step(case: Case, padding: list[int]) -> Step | None:
    """PyTorch's quantised convolution of bytes less 128, with a kernel that is laid out before, and results in f32."""
    import torch

    if case.transposed:
        return None
    rank = len(case.sizes)
    x, w, _ = torch_arrays(case)
    x = (x * 32 + 128).clamp(0, 255).to(torch.uint8).contiguous()
    w = (w * 32).clamp(-127, 127).to(torch.int8).contiguous()
    if case.last and rank > 1:
        x = x.contiguous(memory_format=last_format(case))
    outs = case.features[1]
    scales, zeros = torch.ones(outs), torch.zeros(outs, dtype=torch.int64)
    settings = [[case.stride] * rank, padding, [case.dilation] * rank, case.groups]
    laid_out = torch.ops.onednn.qconv_prepack(w, scales, 1.0, 128, *settings, list(x.shape))

    def step() -> Any:
        return torch.ops.onednn.qconv_pointwise(
            x, 1.0, 128, laid_out, scales, zeros, None, *settings, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip

    try:
        step()
    except RuntimeError:
        return None
    return step


def xla_step(case: Case, dtype: str) -> Step:
    import jax

    function, values = program(case, dtype)
    cpu = jax.devices("cpu")[0]
    arrays = [jax.device_put(v, cpu) for v in values]
    compiled = jax.jit(function)
    return lambda: compiled(*arrays).block_until_ready()


def steps(case: Case, dtype: str, cpu: str, without: set[str]) -> dict[str, Step]:
    makers: dict[str, Callable[[], Step | None]] = {
        "generated": lambda: ours(case, dtype, cpu, "generated"),
        "library": lambda: ours(case, dtype, cpu, "library"),
        "chosen": lambda: ours(case, dtype, cpu, "chosen"),
        "torch": lambda: torch_step(case, dtype),
        "xla": lambda: xla_step(case, dtype),
    }
    found = {}
    for name, make in makers.items():
        step = make() if name not in without else None
        if step is not None:
            found[name] = step
    return found


def main() -> int:
    import os

    options = arguments()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    restrict(options.cpu, options.threads)
    if options.threads:
        try:
            import torch
        except ImportError:
            pass
        else:
            torch.set_num_threads(options.threads)
    clock = time.process_time if options.clock == "cpu" else time.perf_counter
    words = [word for word in options.only.split(",") if word]
    without = set(options.without.split(","))
    rows = []
    for dtype in options.types.split(","):
        for kind in options.kinds.split(","):
            if dtype == "s8" and kind != "forward":
                continue
            for base in cases():
                case = Case(**{**base.__dict__, "kind": kind})
                if words and not any(word in case.name for word in words):
                    continue
                best = measure(steps(case, dtype, options.cpu, without), clock, options.seconds)
                speed = {name: 2e-9 * case.multiply_adds / t for name, t in best.items()}
                rivals = [v for name, v in speed.items() if name in ("library", "torch", "xla")]
                ratio = speed.get("chosen", 0.0) / max(rivals, default=float("nan"))
                rows.append(
                    {"type": dtype, "name": case.name, "kind": kind, "cpu": options.cpu, **speed}
                )
                figures = "  ".join(f"{name} {v:7.1f}" for name, v in speed.items())
                print(f"{dtype:5} {kind:8} {case.name:24} {figures}  ratio {ratio:.2f}", flush=True)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
