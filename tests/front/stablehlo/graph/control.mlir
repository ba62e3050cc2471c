// Regions: named by their kind where they have one, given what they use as parameters where they are branches.
module @control {
  func.func public @main(%p: tensor<i1>, %i: tensor<i32>, %x: tensor<4xf32>, %k: tensor<4xi32>, %j: tensor<2x1xi32>) -> (tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %shift = stablehlo.add %x, %x : tensor<4xf32>
    %0 = "stablehlo.if"(%p) ({
      %n = stablehlo.negate %shift : tensor<4xf32>
      stablehlo.return %n : tensor<4xf32>
    }, {
      %b = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<f32>) -> tensor<4xf32>
      %1 = stablehlo.add %shift, %b : tensor<4xf32>
      stablehlo.return %1 : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %sum = stablehlo.reduce(%0 init: %zero) applies stablehlo.add across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %best:2 = stablehlo.reduce(%x init: %zero), (%k init: %one) across dimensions = [0] : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<i32>, %d: tensor<i32>) {
      %g = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %m = stablehlo.select %g, %a, %b : tensor<i1>, tensor<f32>
      %n = stablehlo.select %g, %c, %d : tensor<i1>, tensor<i32>
      stablehlo.return %m, %n : tensor<f32>, tensor<i32>
    }
    %loop:2 = stablehlo.while(%n = %i, %v = %x) : tensor<i32>, tensor<4xf32>
    cond {
      %c = stablehlo.compare LT, %n, %one, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %n1 = stablehlo.add %n, %one : tensor<i32>
      %v1 = stablehlo.multiply %v, %shift : tensor<4xf32>
      stablehlo.return %n1, %v1 : tensor<i32>, tensor<4xf32>
    }
    %sorted:2 = "stablehlo.sort"(%k, %x) <{dimension = -1 : i64, is_stable = true}> ({
    ^bb0(%a: tensor<i32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<f32>):
      %l = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %l : tensor<i1>
    }) : (tensor<4xi32>, tensor<4xf32>) -> (tensor<4xi32>, tensor<4xf32>)
    %u = stablehlo.slice %x [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    %set = "stablehlo.scatter"(%x, %j, %u) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      stablehlo.return %b : tensor<f32>
    }) : (tensor<4xf32>, tensor<2x1xi32>, tensor<2xf32>) -> tensor<4xf32>
    return %0, %sum, %best#0, %best#1, %loop#1, %sorted#0, %set : tensor<4xf32>, tensor<f32>, tensor<f32>, tensor<i32>, tensor<4xf32>, tensor<4xi32>, tensor<4xf32>
  }
}
