func.func @main(%x: tensor<8xf32>, %j: tensor<8xi32>, %f: tensor<f32>, %g: tensor<i32>) -> (tensor<40000000xf32>, tensor<40000000xi32>) {
  %0:2 = stablehlo.custom_call @ApproxTopK(%x, %j, %f, %g) {called_computations = [@above], mhlo.backend_config = {reduction_dim = 0 : i64, top_k = 4 : i64}} : (tensor<8xf32>, tensor<8xi32>, tensor<f32>, tensor<i32>) -> (tensor<40000000xf32>, tensor<40000000xi32>)  // HERE
  return %0#0, %0#1 : tensor<40000000xf32>, tensor<40000000xi32>
}
func.func private @above(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>) -> tensor<i1> {
  %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
  return %0 : tensor<i1>
}
