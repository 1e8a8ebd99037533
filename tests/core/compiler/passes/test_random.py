"""Random numbers of the rng instruction: range, distribution, and that no two executions share them."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from tripont.core import _tripont
from tripont.core.compiler.compile import compile_program

_COUNT = 20_000


@pytest.fixture(scope="module")
def device() -> object:
    return _tripont.Client({"prestart_worker": False, "cache": False}).devices[0]


def _load(dtype: str, distribution: str, dims: str = f"{_COUNT}x") -> object:
    rank = dims.count("x")
    sizes = ", ".join(d for d in dims.split("x") if d)
    text = f"""
    func.func @main(%a: tensor<{dtype}>, %b: tensor<{dtype}>) -> tensor<{dims}{dtype}> {{
      %shape = stablehlo.constant dense<[{sizes}]> : tensor<{rank}xi64>
      %r = stablehlo.rng %a, %b, %shape, distribution = {distribution}
          : (tensor<{dtype}>, tensor<{dtype}>, tensor<{rank}xi64>) -> tensor<{dims}{dtype}>
      return %r : tensor<{dims}{dtype}>
    }}"""
    return _tripont.Executable.load(compile_program(text.encode(), "mlir", b"", {}))


def _draw(loaded: object, device: object, a: object, b: object) -> np.ndarray:
    return np.asarray(loaded.run(device, [np.asarray(a), np.asarray(b)])[0])  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("dtype", "numpy"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16)]
)
def test_uniform_floats(device: object, dtype: str, numpy: type) -> None:
    values = _draw(_load(dtype, "UNIFORM"), device, numpy(-1), numpy(3)).astype(np.float64)
    assert values.min() >= -1
    assert values.max() < 3 or dtype == "f16"
    assert values.max() <= 3
    # Five standard errors of the mean of a uniform distribution, and of a fraction of 1/2.
    assert abs(values.mean() - 1) < 5 * 4 / np.sqrt(12 * _COUNT)
    assert abs((values < 1).mean() - 0.5) < 5 * 0.5 / np.sqrt(_COUNT)


@pytest.mark.parametrize(("dtype", "numpy"), [("f32", np.float32), ("f64", np.float64)])
def test_normal(device: object, dtype: str, numpy: type) -> None:
    values = _draw(_load(dtype, "NORMAL"), device, numpy(2), numpy(0.5)).astype(np.float64)
    assert np.isfinite(values).all()
    assert abs(values.mean() - 2) < 5 * 0.5 / np.sqrt(_COUNT)
    assert abs(values.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * _COUNT)
    # 68.27 % within one deviation.
    assert abs((np.abs(values - 2) < 0.5).mean() - 0.6827) < 5 * 0.47 / np.sqrt(_COUNT)


@pytest.mark.parametrize(("dtype", "numpy"), [("f16", np.float16), ("bf16", ml_dtypes.bfloat16)])
def test_normal_of_half_precision_has_tails(
    device: object, dtype: str, numpy: Callable[[float], object]
) -> None:
    """They were drawn from as few bits as they have: none was further out than 3.3 or 3.9."""
    count = 400_000
    loaded = _load(dtype, "NORMAL", f"{count}x")
    values = np.abs(_draw(loaded, device, numpy(0), numpy(1)).astype(np.float64))
    # Half of the distance to the next number belongs to the last one.
    for least, expected in ((3.125, 1.778e-3), (3.9375, 8.23e-5)):
        spread = np.sqrt(expected / count)
        assert abs((values >= least).mean() - expected) < 5 * spread + 0.06 * expected


@pytest.mark.parametrize(("dtype", "numpy"), [("i32", np.int32), ("i64", np.int64)])
def test_integers(device: object, dtype: str, numpy: type) -> None:
    values = _draw(_load(dtype, "UNIFORM"), device, numpy(-3), numpy(4))
    found, counts = np.unique(values, return_counts=True)
    assert found.tolist() == [-3, -2, -1, 0, 1, 2, 3]
    assert (np.abs(counts / _COUNT - 1 / 7) < 5 * 0.35 / np.sqrt(_COUNT)).all()


def test_every_execution_draws_others(device: object) -> None:
    loaded = _load("f32", "UNIFORM", "64x")
    draws = [_draw(loaded, device, np.float32(0), np.float32(1)) for _ in range(3)]
    assert len(np.unique(np.concatenate(draws))) > 180


def test_two_instructions_draw_others(device: object) -> None:
    text = b"""
    func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> (tensor<64xf32>, tensor<64xf32>) {
      %shape = stablehlo.constant dense<64> : tensor<1xi64>
      %r = stablehlo.rng %a, %b, %shape, distribution = UNIFORM
          : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
      %s = stablehlo.rng %a, %b, %shape, distribution = UNIFORM
          : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<64xf32>
      return %r, %s : tensor<64xf32>, tensor<64xf32>
    }"""
    loaded = _tripont.Executable.load(compile_program(text, "mlir", b"", {}))
    r, s = loaded.run(device, [np.float32(0), np.float32(1)])
    assert (np.asarray(r) != np.asarray(s)).mean() > 0.95


def test_a_loop_draws_others_each_time(device: object) -> None:
    text = b"""
    func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> tensor<4x8xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %four = stablehlo.constant dense<4> : tensor<i32>
      %start = stablehlo.constant dense<0.0> : tensor<4x8xf32>
      %shape = stablehlo.constant dense<[1, 8]> : tensor<2xi64>
      %r:2 = stablehlo.while(%i = %zero, %x = %start) : tensor<i32>, tensor<4x8xf32>
        cond {
          %c = stablehlo.compare LT, %i, %four : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
        } do {
          %row = stablehlo.rng %a, %b, %shape, distribution = UNIFORM
              : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<1x8xf32>
          %y = stablehlo.dynamic_update_slice %x, %row, %i, %zero
              : (tensor<4x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<4x8xf32>
          %j = stablehlo.add %i, %one : tensor<i32>
          stablehlo.return %j, %y : tensor<i32>, tensor<4x8xf32>
        }
      return %r#1 : tensor<4x8xf32>
    }"""
    loaded = _tripont.Executable.load(compile_program(text, "mlir", b"", {}))
    (values,) = loaded.run(device, [np.float32(0), np.float32(1)])
    assert len(np.unique(np.asarray(values))) == 32
