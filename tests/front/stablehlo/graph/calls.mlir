module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}) -> (tensor<3x2xf32> {jax.result_info = ""}) {
    %0 = stablehlo.add %arg0, %arg1 : tensor<2x3xf32>
    %1 = call @g(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = stablehlo.transpose %1, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    return %2 : tensor<3x2xf32>
  }
  func.func private @g(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.tanh %a : tensor<2x3xf32>
    %c = stablehlo.constant dense<[[1.0,2.0,3.0],[4.0,5.0,6.0]]> : tensor<2x3xf32>
    %1 = stablehlo.add %0, %c : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
}
