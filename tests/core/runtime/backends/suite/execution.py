"""Programs of every kind of thunk, against NumPy."""

from __future__ import annotations

import numpy as np

from .context import Context, tensor


def _floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def check_elementwise_kernels_of_all_sizes(context: Context) -> None:
    for size in (1, 7, 16, 1000, 1 << 20):
        type_ = tensor((size,))
        text = f"""func.func @main(%x: {type_}, %y: {type_}) -> ({type_}, {type_}) {{
          %0 = stablehlo.multiply %x, %y : {type_}
          %1 = stablehlo.subtract %0, %y : {type_}
          return %0, %1 : {type_}, {type_}
        }}"""
        x, y = _floats(size), _floats(size)[::-1].copy()
        product, difference = context.run(text, x, y)
        np.testing.assert_array_equal(product, x * y)
        # The two operations may be one, which rounds once.
        np.testing.assert_allclose(difference, x * y - y, rtol=1e-5, atol=1e-6)


def check_reductions(context: Context) -> None:
    for shape, axis in (((1000,), 0), ((64, 3000), 1), ((3000, 64), 0), ((7, 5, 3), 1)):
        result = tuple(d for n, d in enumerate(shape) if n != axis)
        text = f"""func.func @main(%x: {tensor(shape, "int32")}) -> {tensor(result, "int32")} {{
          %c = stablehlo.constant dense<0> : tensor<i32>
          %0 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [{axis}]
            : ({tensor(shape, "int32")}, tensor<i32>) -> {tensor(result, "int32")}
          return %0 : {tensor(result, "int32")}
        }}"""
        x = np.random.default_rng(1).integers(-1000, 1000, shape, np.int32)
        np.testing.assert_array_equal(context.run(text, x)[0], x.sum(axis, dtype=np.int32))


def check_data_movement(context: Context) -> None:
    text = """func.func @main(%x: tensor<61x67xf32>, %i: tensor<9x1xi32>)
        -> (tensor<67x61xf32>, tensor<9x67xf32>, tensor<30x67xf32>) {
      %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<61x67xf32>) -> tensor<67x61xf32>
      %1 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [1],
        collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 67>}
        : (tensor<61x67xf32>, tensor<9x1xi32>) -> tensor<9x67xf32>
      %2 = stablehlo.slice %x [1:61:2, 0:67] : (tensor<61x67xf32>) -> tensor<30x67xf32>
      return %0, %1, %2 : tensor<67x61xf32>, tensor<9x67xf32>, tensor<30x67xf32>
    }"""
    x = _floats(61, 67)
    rows = np.array([[3], [0], [60], [3], [12], [59], [1], [2], [33]], np.int32)
    transposed, gathered, sliced = context.run(text, x, rows)
    np.testing.assert_array_equal(transposed, x.T)
    np.testing.assert_array_equal(gathered, x[rows[:, 0]])
    np.testing.assert_array_equal(sliced, x[1:61:2])


def check_loops_with_a_predicate(context: Context) -> None:
    """How often it runs depends on the values; small and large, so in one kernel and in many."""
    for size in (4, 200_000):
        type_ = tensor((size,), "int32")
        text = f"""func.func @main(%n: tensor<i32>, %x: {type_}) -> (tensor<i32>, {type_}) {{
          %one = stablehlo.constant dense<1> : tensor<i32>
          %0:2 = stablehlo.while(%i = %n, %y = %x) : tensor<i32>, {type_} cond {{
            %zero = stablehlo.constant dense<0> : tensor<i32>
            %c = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          }} do {{
            %d = stablehlo.subtract %i, %one : tensor<i32>
            %z = stablehlo.add %y, %y : {type_}
            stablehlo.return %d, %z : tensor<i32>, {type_}
          }}
          return %0#0, %0#1 : tensor<i32>, {type_}
        }}"""
        x = np.arange(size, dtype=np.int32) % 1000
        for times in (0, 1, 9):
            n, y = context.run(text, np.int32(times), x)
            assert n == 0
            np.testing.assert_array_equal(y, x << times)


def check_conditionals(context: Context) -> None:
    for size in (4, 200_000):
        type_ = tensor((size,))
        text = f"""func.func @main(%i: tensor<i32>, %x: {type_}) -> {type_} {{
          %0 = "stablehlo.case"(%i) ({{
            %a = stablehlo.negate %x : {type_}
            stablehlo.return %a : {type_}
          }}, {{
            %b = stablehlo.add %x, %x : {type_}
            stablehlo.return %b : {type_}
          }}, {{
            stablehlo.return %x : {type_}
          }}) : (tensor<i32>) -> {type_}
          return %0 : {type_}
        }}"""
        x = _floats(size)
        for index, expected in ((0, -x), (1, x + x), (2, x), (-1, x), (5, x)):
            np.testing.assert_array_equal(context.run(text, np.int32(index), x)[0], expected)


def check_calls_that_run_on_the_host(context: Context) -> None:
    """A sort whose comparator is compiled code, between kernels that make its operand and read its result."""
    for size in (5, 30_000):
        type_ = tensor((size,))
        text = f"""func.func @main(%x: {type_}) -> {type_} {{
          %0 = stablehlo.negate %x : {type_}
          %1 = "stablehlo.sort"(%0) ({{
            ^bb0(%a: tensor<f32>, %b: tensor<f32>):
              %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
              stablehlo.return %c : tensor<i1>
          }}) {{dimension = 0 : i64}} : ({type_}) -> {type_}
          %2 = stablehlo.add %1, %1 : {type_}
          return %2 : {type_}
        }}"""
        x = _floats(size)
        np.testing.assert_array_equal(context.run(text, x)[0], 2 * np.sort(-x))


def check_products(context: Context) -> None:
    """By kernels and by libraries, with constants that are packed once, and what is done with the result."""
    for m, k, n in ((2, 3, 4), (64, 65, 66), (300, 257, 310)):
        weights = np.round(_floats(k, n) * 8) / 8
        rows = ", ".join(str(row.tolist()) for row in weights) if k < 4 else None
        constant = f"dense<[{rows}]>" if rows else "dense<0.125>"
        weights = weights if rows else np.full((k, n), 0.125, np.float32)
        left, right, both = tensor((m, k)), tensor((k, n)), tensor((m, n))
        text = f"""func.func @main(%x: {left}, %y: {right}) -> ({both}, {both}) {{
          %w = stablehlo.constant {constant} : {right}
          %0 = stablehlo.dot %x, %y : ({left}, {right}) -> {both}
          %1 = stablehlo.dot %x, %w : ({left}, {right}) -> {both}
          %2 = stablehlo.negate %1 : {both}
          return %0, %2 : {both}, {both}
        }}"""
        # Multiples of 1/8 below 4 in magnitude: every order of adding them is exact.
        x = np.clip(np.round(_floats(m, k) * 8), -31, 31).astype(np.float32) / 8
        y = np.clip(np.round(_floats(k, n) * 8), -31, 31).astype(np.float32) / 8
        product, negated = context.run(text, x, y)
        np.testing.assert_array_equal(product, x @ y)
        np.testing.assert_array_equal(negated, -(x @ weights.astype(np.float32)))


def check_convolution(context: Context) -> None:
    text = """func.func @main(%x: tensor<2x16x16x8xf32>, %w: tensor<3x3x8x16xf32>) -> tensor<2x14x14x16xf32> {
      %0 = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
        window = {stride = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
        : (tensor<2x16x16x8xf32>, tensor<3x3x8x16xf32>) -> tensor<2x14x14x16xf32>
      return %0 : tensor<2x14x14x16xf32>
    }"""
    x = np.round(_floats(2, 16, 16, 8) * 4) / 4
    w = np.round(_floats(3, 3, 8, 16) * 4) / 4
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    expected = np.einsum("bhwfij,ijfo->bhwo", windows, w)
    np.testing.assert_allclose(context.run(text, x, w)[0], expected, rtol=1e-5, atol=1e-4)


def check_results_that_are_not_computed(context: Context) -> None:
    """Constants, parameters that are given back, one result twice, arrays of no elements."""
    text = """func.func @main(%x: tensor<5xf32>, %e: tensor<0x3xf32>)
        -> (tensor<3xi32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<0x3xf32>) {
      %c = stablehlo.constant dense<[7, 8, 9]> : tensor<3xi32>
      %0 = stablehlo.negate %x : tensor<5xf32>
      %1 = stablehlo.add %e, %e : tensor<0x3xf32>
      return %c, %x, %0, %0, %1 : tensor<3xi32>, tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<0x3xf32>
    }"""
    x = _floats(5)
    constant, same, once, twice, empty = context.run(text, x, np.zeros((0, 3), np.float32))
    np.testing.assert_array_equal(constant, [7, 8, 9])
    np.testing.assert_array_equal(same, x)
    np.testing.assert_array_equal(once, -x)
    np.testing.assert_array_equal(twice, -x)
    assert empty.shape == (0, 3)


def check_a_program_runs_on_every_device(context: Context) -> None:
    program = context.program(
        "func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {\n"
        "%0 = stablehlo.negate %x : tensor<100xf32>\nreturn %0 : tensor<100xf32>\n}"
    )
    x = _floats(100)
    for device in context.client.devices:
        (result,) = program.execute(device, [context.put(x, device)])
        assert result.device.id == device.id
        np.testing.assert_array_equal(result.numpy(), -x)
