func.func @main(%p: tensor<4xi32>) -> tensor<3xi32> {
  %0 = stablehlo.custom_call @tripont.lu_pivots_to_permutation(%p) : (tensor<4xi32>) -> tensor<3xi32>  // HERE
  return %0 : tensor<3xi32>
}
