func.func @main(%x: tensor<6x20xf32>, %u: tensor<2x3xf32>, %i: tensor<i32>, %j: tensor<i32>) -> (tensor<6x20xf32>, tensor<2x5xf32>, tensor<9x25xf32>, tensor<3x5xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.dynamic_update_slice %x, %u, %i, %j : (tensor<6x20xf32>, tensor<2x3xf32>, tensor<i32>, tensor<i32>) -> tensor<6x20xf32>
  %1 = stablehlo.dynamic_slice %x, %i, %j, sizes = [2, 5] : (tensor<6x20xf32>, tensor<i32>, tensor<i32>) -> tensor<2x5xf32>
  %2 = stablehlo.pad %x, %z, low = [1, 2], high = [2, 3], interior = [0, 0] : (tensor<6x20xf32>, tensor<f32>) -> tensor<9x25xf32>
  %3 = stablehlo.slice %x [0:6:2, 0:20:4] : (tensor<6x20xf32>) -> tensor<3x5xf32>
  return %0, %1, %2, %3 : tensor<6x20xf32>, tensor<2x5xf32>, tensor<9x25xf32>, tensor<3x5xf32>
}
