func.func @main(%x: tensor<4x6x20xf32>, %i: tensor<4x7x1xi32>, %y: tensor<6x20xf32>, %u: tensor<7x20xf32>, %k: tensor<7x1xi32>) -> (tensor<4x7x20xf32>, tensor<6x20xf32>) {
  %0 = "stablehlo.gather"(%x, %i) {dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1, 20>} : (tensor<4x6x20xf32>, tensor<4x7x1xi32>) -> tensor<4x7x20xf32>
  %1 = "stablehlo.scatter"(%y, %k, %u) ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
  }) {scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>} : (tensor<6x20xf32>, tensor<7x1xi32>, tensor<7x20xf32>) -> tensor<6x20xf32>
  return %0, %1 : tensor<4x7x20xf32>, tensor<6x20xf32>
}
