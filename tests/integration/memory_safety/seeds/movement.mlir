func.func @main(%x: tensor<6x20xf32>, %key: tensor<2xui64>) -> (tensor<20x6xf32>, tensor<2xui64>, tensor<9xui32>, tensor<4x30xf32>, tensor<6x20xf32>, tensor<6xf32>) {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<6x20xf32>) -> tensor<20x6xf32>
  %1 = stablehlo.reverse %x, dims = [0, 1] : tensor<6x20xf32>
  %2, %3 = stablehlo.rng_bit_generator %key, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<9xui32>)
  %4 = stablehlo.reshape %x : (tensor<6x20xf32>) -> tensor<4x30xf32>
  %5 = stablehlo.concatenate %x, %1, dim = 0 : (tensor<6x20xf32>, tensor<6x20xf32>) -> tensor<12x20xf32>
  %6 = stablehlo.slice %5 [3:9, 0:20] : (tensor<12x20xf32>) -> tensor<6x20xf32>
  %7 = stablehlo.iota dim = 1 : tensor<6x20xf32>
  %8 = stablehlo.add %6, %7 : tensor<6x20xf32>
  %9 = stablehlo.reduce(%8 init: %z) applies stablehlo.add across dimensions = [1] : (tensor<6x20xf32>, tensor<f32>) -> tensor<6xf32>
  return %0, %2, %3, %4, %8, %9 : tensor<20x6xf32>, tensor<2xui64>, tensor<9xui32>, tensor<4x30xf32>, tensor<6x20xf32>, tensor<6xf32>
}
