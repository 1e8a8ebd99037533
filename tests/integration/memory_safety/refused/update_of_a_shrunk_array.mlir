func.func @main(%x: tensor<1000000xf32>, %u: tensor<2xf32>, %i: tensor<i32>) -> tensor<4xf32> {
  %0 = stablehlo.custom_call @LayoutConstraint(%x) : (tensor<1000000xf32>) -> tensor<4xf32>  // HERE
  %1 = stablehlo.dynamic_update_slice %0, %u, %i : (tensor<4xf32>, tensor<2xf32>, tensor<i32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
