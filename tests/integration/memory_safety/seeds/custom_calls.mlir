func.func @main(%x: tensor<6x20xf32>, %y: tensor<5x5xf32>) -> (tensor<6x20xf32>, tensor<6x20xf32>, tensor<6x3xf32>, tensor<6x3xi32>, tensor<5x5xf32>, tensor<5xf32>) {
  %0 = stablehlo.custom_call @Sharding(%x) : (tensor<6x20xf32>) -> tensor<6x20xf32>
  %1 = stablehlo.custom_call @mhlo.erf(%0) : (tensor<6x20xf32>) -> tensor<6x20xf32>
  %2:2 = stablehlo.custom_call @TopK(%x) {mhlo.attributes = {k = 3 : i64, largest = true}} : (tensor<6x20xf32>) -> (tensor<6x3xf32>, tensor<6x3xi32>)
  %3:2 = stablehlo.custom_call @Qr(%y) : (tensor<5x5xf32>) -> (tensor<5x5xf32>, tensor<5xf32>)
  return %0, %1, %2#0, %2#1, %3#0, %3#1 : tensor<6x20xf32>, tensor<6x20xf32>, tensor<6x3xf32>, tensor<6x3xi32>, tensor<5x5xf32>, tensor<5xf32>
}
