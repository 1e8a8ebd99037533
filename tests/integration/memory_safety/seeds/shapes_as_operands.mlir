func.func @main(%x: tensor<6x20xf32>, %i: tensor<7x1xi32>) -> (tensor<2x3xf32>, tensor<8x23xf32>, tensor<7x20xf32>, tensor<20x6xf32>, tensor<2x6x20xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %s = stablehlo.constant dense<[1, 4]> : tensor<2xi64>
  %l = stablehlo.constant dense<[3, 7]> : tensor<2xi64>
  %t = stablehlo.constant dense<[1, 1]> : tensor<2xi64>
  %0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : (tensor<6x20xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<2x3xf32>
  %low = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %high = stablehlo.constant dense<[1, 1]> : tensor<2xi64>
  %inside = stablehlo.constant dense<[0, 0]> : tensor<2xi64>
  %1 = stablehlo.dynamic_pad %x, %z, %low, %high, %inside : (tensor<6x20xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<8x23xf32>
  %sizes = stablehlo.constant dense<[1, 20]> : tensor<2xi32>
  %2 = "stablehlo.dynamic_gather"(%x, %i, %sizes) {dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>} : (tensor<6x20xf32>, tensor<7x1xi32>, tensor<2xi32>) -> tensor<7x20xf32>
  %dims = stablehlo.constant dense<[20, 6]> : tensor<2xi64>
  %3 = stablehlo.dynamic_reshape %x, %dims : (tensor<6x20xf32>, tensor<2xi64>) -> tensor<20x6xf32>
  %more = stablehlo.constant dense<[2, 6, 20]> : tensor<3xi64>
  %4 = stablehlo.dynamic_broadcast_in_dim %x, %more, dims = [1, 2] : (tensor<6x20xf32>, tensor<3xi64>) -> tensor<2x6x20xf32>
  return %0, %1, %2, %3, %4 : tensor<2x3xf32>, tensor<8x23xf32>, tensor<7x20xf32>, tensor<20x6xf32>, tensor<2x6x20xf32>
}
