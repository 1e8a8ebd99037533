func.func @main(%x: tensor<4xf32>) -> tensor<1024xf32> {
  %0 = stablehlo.custom_call @Sharding(%x) : (tensor<4xf32>) -> tensor<1024xf32>  // HERE
  %1 = stablehlo.negate %0 : tensor<1024xf32>
  return %1 : tensor<1024xf32>
}
