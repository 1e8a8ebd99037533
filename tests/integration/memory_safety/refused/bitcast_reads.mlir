func.func @main(%x: tensor<4xf32>) -> tensor<40000000xf32> {
  %0 = "mhlo.bitcast"(%x) : (tensor<4xf32>) -> tensor<40000000xf32>  // HERE
  %1 = stablehlo.negate %0 : tensor<40000000xf32>
  return %1 : tensor<40000000xf32>
}
