func.func @main(%x: tensor<8xf32>, %i: tensor<2x1xi32>) -> tensor<2x40000000xf32> {
  %s = stablehlo.constant dense<[40000000]> : tensor<1xi32>
  %0 = "stablehlo.dynamic_gather"(%x, %i, %s) {dimension_numbers = #stablehlo.gather<offset_dims = [1], start_index_map = [0], index_vector_dim = 1>} : (tensor<8xf32>, tensor<2x1xi32>, tensor<1xi32>) -> tensor<2x40000000xf32>  // HERE
  return %0 : tensor<2x40000000xf32>
}
