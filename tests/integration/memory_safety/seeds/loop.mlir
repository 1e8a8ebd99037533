func.func @main(%x: tensor<4xf32>, %large: tensor<40x4xf32>) -> (tensor<4xf32>, tensor<40x4xf32>) {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %end = stablehlo.constant dense<5> : tensor<i32>
  %r:3 = stablehlo.while(%i = %zero, %s = %x, %b = %large) : tensor<i32>, tensor<4xf32>, tensor<40x4xf32>
    cond {
      %c = stablehlo.compare LT, %i, %end : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %next = stablehlo.add %i, %one : tensor<i32>
      %row = stablehlo.dynamic_slice %b, %i, %zero, sizes = [1, 4] : (tensor<40x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x4xf32>
      %flat = stablehlo.reshape %row : (tensor<1x4xf32>) -> tensor<4xf32>
      %sum = stablehlo.add %s, %flat : tensor<4xf32>
      %again = stablehlo.reshape %sum : (tensor<4xf32>) -> tensor<1x4xf32>
      %b2 = stablehlo.dynamic_update_slice %b, %again, %next, %zero : (tensor<40x4xf32>, tensor<1x4xf32>, tensor<i32>, tensor<i32>) -> tensor<40x4xf32>
      stablehlo.return %next, %sum, %b2 : tensor<i32>, tensor<4xf32>, tensor<40x4xf32>
    }
  return %r#1, %r#2 : tensor<4xf32>, tensor<40x4xf32>
}
