"""Memory that runs out: an error that names what there was no room for, after which everything goes on.

``test_backends.py`` gives the process a limit (context.LIMIT).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .context import LIMIT, Context, elementwise, error_of, tensor


def check_an_array_that_is_too_large(context: Context) -> None:
    for _ in range(2):
        code, message = error_of(lambda: context.put(np.zeros(2 * LIMIT, np.uint8)))
        assert code == "RESOURCE_EXHAUSTED"
        assert f"u8[{2 * LIMIT}]" in message or str(2 * LIMIT) in message, message
    array = np.arange(1000)
    np.testing.assert_array_equal(context.put(array).numpy(), array)


def _fill(context: Context, size: int) -> list[Any]:
    """Arrays of ``size`` bytes, as many as there is room for."""
    piece = np.ones(size, np.uint8)
    held: list[Any] = []

    def put() -> None:
        while len(held) * size <= LIMIT:
            held.append(context.put(piece))

    assert error_of(put)[0] == "RESOURCE_EXHAUSTED"
    return held


def check_many_arrays(context: Context) -> None:
    """The limit holds for all together, and what is given back can be had again."""
    for _ in range(3):
        held = _fill(context, LIMIT // 8)
        assert 4 <= len(held) <= 8, len(held)
        assert all(buffer.numpy()[-1] == 1 for buffer in held[::3])
        del held  # or the next turn finds no room


def check_results(context: Context) -> None:
    size = LIMIT // 32  # elements, so an eighth of the limit
    program = context.program(elementwise("negate", size))
    operand = context.put(np.ones(size, np.float32))
    held = _fill(context, LIMIT // 10)
    code, message = error_of(lambda: program.execute(context.device, [operand], [0]))
    assert code == "RESOURCE_EXHAUSTED"
    assert f"result 0 of shape f32[{size}]" in message, message
    assert not operand.is_deleted
    held.clear()
    (result,) = program.execute(context.device, [operand], [0])
    assert result.numpy()[-1] == -1


def check_temporaries(context: Context) -> None:
    """What is between a kernel and a sort of its result."""
    size = LIMIT // 32
    type_ = tensor((size,))
    program = context.program(f"""func.func @main(%x: {type_}) -> tensor<f32> {{
      %0 = stablehlo.negate %x : {type_}
      %1 = "stablehlo.sort"(%0) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
          stablehlo.return %c : tensor<i1>
      }}) {{dimension = 0 : i64}} : ({type_}) -> {type_}
      %2 = stablehlo.slice %1 [0:1] : ({type_}) -> tensor<1xf32>
      %3 = stablehlo.reshape %2 : (tensor<1xf32>) -> tensor<f32>
      return %3 : tensor<f32>
    }}""")
    assert program.describe()["temp_size"] >= 4 * size
    operand = context.put(np.ones(size, np.float32))
    held = _fill(context, LIMIT // 10)

    def run() -> Any:
        (found,) = program.execute(context.device, [operand])
        return found.numpy()

    code, message = error_of(run)
    assert code == "RESOURCE_EXHAUSTED"
    assert "temporary arena" in message, message
    held.clear()
    assert run() == -1
