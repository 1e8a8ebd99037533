func.func @main(%x: tensor<8xf32>, %s: tensor<1xi64>, %l: tensor<1xi64>) -> tensor<40000000xf32> {
  %t = stablehlo.constant dense<1> : tensor<1xi64>
  %0 = stablehlo.real_dynamic_slice %x, %s, %l, %t : (tensor<8xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<40000000xf32>  // HERE
  return %0 : tensor<40000000xf32>
}
