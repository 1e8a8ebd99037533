func.func @main(%x: tensor<2x6x20xf32>, %y: tensor<2x20x5xf32>, %image: tensor<1x9x9x3xf32>, %kernel: tensor<3x3x3x4xf32>, %m: tensor<3x4x4xf32>, %b: tensor<3x4x2xf32>) -> (tensor<2x6x5xf32>, tensor<1x7x7x4xf32>, tensor<3x4x2xf32>, tensor<6x20xcomplex<f32>>) {
  %0 = stablehlo.dot_general %x, %y, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x6x20xf32>, tensor<2x20x5xf32>) -> tensor<2x6x5xf32>
  %1 = stablehlo.convolution(%image, %kernel) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[0, 0], [0, 0]], lhs_dilate = [1, 1], rhs_dilate = [1, 1]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x9x9x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x7x7x4xf32>
  %2 = "stablehlo.triangular_solve"(%m, %b) {left_side = true, lower = true, unit_diagonal = true, transpose_a = #stablehlo<transpose NO_TRANSPOSE>} : (tensor<3x4x4xf32>, tensor<3x4x2xf32>) -> tensor<3x4x2xf32>
  %3 = stablehlo.slice %x [0:1, 0:6, 0:20] : (tensor<2x6x20xf32>) -> tensor<1x6x20xf32>
  %4 = stablehlo.reshape %3 : (tensor<1x6x20xf32>) -> tensor<6x20xf32>
  %5 = stablehlo.complex %4, %4 : tensor<6x20xcomplex<f32>>
  %6 = stablehlo.fft %5, type = FFT, length = [20] : (tensor<6x20xcomplex<f32>>) -> tensor<6x20xcomplex<f32>>
  return %0, %1, %2, %6 : tensor<2x6x5xf32>, tensor<1x7x7x4xf32>, tensor<3x4x2xf32>, tensor<6x20xcomplex<f32>>
}
