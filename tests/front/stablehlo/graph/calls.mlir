// Calls and composites are inlined, or named; an argument given away goes to the first result of its type.
module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32> {jax.buffer_donor = true}, %z: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}) -> (tensor<3x2xf32> {jax.result_info = ""}, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x2xf32>) {
    %0 = stablehlo.add %x, %y : tensor<2x3xf32>
    %1 = call @g(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %l = stablehlo.custom_call @LayoutConstraint(%1) {operand_layouts = [dense<[0, 1]> : tensor<2xindex>], result_layouts = [dense<[0, 1]> : tensor<2xindex>]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %2 = stablehlo.transpose %l, dims = [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
    %3 = stablehlo.composite "my.op" %z {composite_attributes = {k = 3 : i64}, decomposition = @g} : (tensor<2x3xf32>) -> tensor<2x3xf32>
    %4:2 = stablehlo.composite "chlo.top_k" %x {composite_attributes = {k = 2 : i64}, decomposition = @top, version = 1 : i32} : (tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
    return %2, %1, %3, %4#0 : tensor<3x2xf32>, tensor<2x3xf32>, tensor<2x3xf32>, tensor<2x2xf32>
  }
  func.func private @g(%a: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.tanh %a : tensor<2x3xf32>
    %c = stablehlo.constant dense<[[1.0,2.0,3.0],[4.0,5.0,6.0]]> : tensor<2x3xf32>
    %1 = stablehlo.add %0, %c : tensor<2x3xf32>
    return %1 : tensor<2x3xf32>
  }
  func.func private @top(%a: tensor<2x3xf32>) -> (tensor<2x2xf32>, tensor<2x2xi32>)
}
