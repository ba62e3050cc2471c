// The ops that neither JAX's programs nor ops.mlir have.
module @rest {
  func.func @stablehlo(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
    %0 = stablehlo.logistic %x : tensor<3x3xf32>
    %1 = "stablehlo.triangular_solve"(%x, %0) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose ADJOINT>, unit_diagonal = true}> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    return %1 : tensor<3x3xf32>
  }
  func.func @chlo(%x: tensor<4xf32>, %z: tensor<4xcomplex<f32>>, %i: tensor<4xi32>) -> tensor<4xf32> {
    %0 = chlo.conj %z : tensor<4xcomplex<f32>> -> tensor<4xcomplex<f32>>
    %1 = chlo.is_inf %x : tensor<4xf32> -> tensor<4xi1>
    %2 = chlo.is_neg_inf %x : tensor<4xf32> -> tensor<4xi1>
    %3 = chlo.is_pos_inf %x : tensor<4xf32> -> tensor<4xi1>
    %4 = chlo.polygamma %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %5 = chlo.zeta %x, %4 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    %6 = chlo.tan %5 : tensor<4xf32> -> tensor<4xf32>
    %7 = "chlo.broadcast_compare"(%x, %6) {compare_type = #chlo<comparison_type TOTALORDER>, comparison_direction = #chlo<comparison_direction LT>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
    %8 = "chlo.constant_like"(%x) <{value = 1.5 : f32}> : (tensor<4xf32>) -> tensor<4xf32>
    %9 = chlo.constant dense<2.0> : tensor<4xf32>
    return %6 : tensor<4xf32>
  }
  func.func @ragged(%a: tensor<6x5xf32>, %b: tensor<3x5x7xf32>, %n: tensor<3xi64>) -> tensor<6x7xf32> {
    %0 = "chlo.ragged_dot"(%a, %b, %n) <{precision_config = [#chlo<precision HIGH>, #chlo<precision DEFAULT>], ragged_dot_dimension_numbers = #chlo.ragged_dot<lhs_batching_dimensions = [], rhs_batching_dimensions = [], lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]>}> : (tensor<6x5xf32>, tensor<3x5x7xf32>, tensor<3xi64>) -> tensor<6x7xf32>
    return %0 : tensor<6x7xf32>
  }
}
