func.func @main(%n: tensor<i32>, %x: tensor<4xf32>, %large: tensor<400xf32>) -> tensor<4xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %small = %x, %b = %large) : tensor<i32>, tensor<4xf32>, tensor<400xf32>
    cond {
      %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %twice = stablehlo.add %b, %b : tensor<400xf32>
      %s = stablehlo.custom_call @Sharding(%twice) : (tensor<400xf32>) -> tensor<4xf32>  // HERE
      stablehlo.return %next, %s, %twice : tensor<i32>, tensor<4xf32>, tensor<400xf32>
    }
  return %r#1 : tensor<4xf32>
}
