func.func @main(%x: tensor<8x16xf32>) -> tensor<2x4xf32> {
  %s = stablehlo.constant dense<[4294967296, 2]> : tensor<2xi64>
  %l = stablehlo.constant dense<[0, 6]> : tensor<2xi64>
  %t = stablehlo.constant dense<1> : tensor<2xi64>
  %0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : (tensor<8x16xf32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) -> tensor<2x4xf32>  // HERE
  %1 = stablehlo.negate %0 : tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
