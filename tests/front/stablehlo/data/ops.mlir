// Ops, attributes and types that JAX does not write, each in a form MLIR's verifier accepts.
module @ops attributes {mhlo.note = "a \22quoted\22 \\ line\0A", mhlo.unit, mhlo.list = [1 : i32, 2.5 : f32, @batch_norm, i64, unit, dense<[1, 2]> : tensor<2xi8>]} {
  func.func @batch_norm(%x: tensor<2x3xf32>, %s: tensor<3xf32>) -> tensor<2x3xf32> {
    %0:3 = "stablehlo.batch_norm_training"(%x, %s, %s) <{epsilon = 1.000000e-03 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
    %1 = "stablehlo.batch_norm_inference"(%0#0, %s, %s, %0#1, %0#2) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
    %2:3 = "stablehlo.batch_norm_grad"(%x, %s, %s, %s, %1) <{epsilon = 0.1 : f32, feature_index = 1 : i64}> : (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>)
    return %2#0 : tensor<2x3xf32>
  }
  func.func private @tokens(%x: tensor<3xf32>, %t: !stablehlo.token) -> !stablehlo.token {
    %0 = stablehlo.create_token : !stablehlo.token
    %1 = stablehlo.after_all %0, %t : !stablehlo.token
    %2 = stablehlo.after_all  : !stablehlo.token
    %3:2 = "stablehlo.recv"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 3>, is_host_transfer = true}> : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
    %4 = "stablehlo.send"(%3#0, %3#1) <{channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>, is_host_transfer = true}> : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
    %5:2 = "stablehlo.infeed"(%4) <{infeed_config = "in", layout = [[0]]}> : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
    %6 = "stablehlo.outfeed"(%5#0, %5#1) <{outfeed_config = "out"}> : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
    return %6 : !stablehlo.token
  }
  func.func @tuples(%x: tensor<3xf32>, %i: tensor<i32>) -> tuple<tensor<3xf32>, tuple<tensor<i32>>> {
    %0 = stablehlo.tuple %i : tuple<tensor<i32>>
    %1 = stablehlo.tuple %x, %0 : tuple<tensor<3xf32>, tuple<tensor<i32>>>
    %2 = stablehlo.get_tuple_element %1[0] : (tuple<tensor<3xf32>, tuple<tensor<i32>>>) -> tensor<3xf32>
    %3 = stablehlo.custom_call @target(%2, %i) {api_version = 2 : i32, backend_config = "config", has_side_effect = true, operand_layouts = [dense<0> : tensor<1xindex>, dense<> : tensor<0xindex>], result_layouts = [dense<0> : tensor<1xindex>], output_operand_aliases = [#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>], called_computations = [@sum]} : (tensor<3xf32>, tensor<i32>) -> tensor<3xf32>
    %4 = stablehlo.custom_call @"odd name"() {mhlo.extra = {a = 1 : i64, "b c" = true}} : () -> tensor<f32>
    %5 = stablehlo.optimization_barrier %3 : tensor<3xf32>
    stablehlo.optimization_barrier ()
    return %1 : tuple<tensor<3xf32>, tuple<tensor<i32>>>
  }
  func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %a, %b : tensor<f32>
    return %0 : tensor<f32>
  }
  func.func @dynamic(%x: tensor<?x4xf32>, %b: tensor<?xf32, #stablehlo.bounds<8>>, %n: tensor<2xi32>, %i: tensor<i32>, %two: tensor<2xi64>) -> tensor<?x?xf32> {
    %0 = stablehlo.dynamic_reshape %x, %n : (tensor<?x4xf32>, tensor<2xi32>) -> tensor<?x?xf32>
    %1 = stablehlo.dynamic_broadcast_in_dim %b, %n, dims = [1] {known_expanding_dimensions = array<i64>, known_nonexpanding_dimensions = array<i64: 0>} : (tensor<?xf32, #stablehlo.bounds<8>>, tensor<2xi32>) -> tensor<?x?xf32>
    %2 = stablehlo.dynamic_iota %n, dim = 1 : (tensor<2xi32>) -> tensor<?x?xi32>
    %c = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %3 = stablehlo.dynamic_pad %0, %c, %n, %n, %n : (tensor<?x?xf32>, tensor<f32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    %4 = stablehlo.real_dynamic_slice %3, %n, %n, %n : (tensor<?x?xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>) -> tensor<?x?xf32>
    %5 = stablehlo.get_dimension_size %4, dim = 0 : (tensor<?x?xf32>) -> tensor<i32>
    %6 = stablehlo.set_dimension_size %b, %5, dim = 0 : (tensor<?xf32, #stablehlo.bounds<8>>, tensor<i32>) -> tensor<?xf32, #stablehlo.bounds<8>>
    %7 = "stablehlo.dynamic_gather"(%4, %2, %n) <{dimension_numbers = #stablehlo.gather<offset_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = true}> : (tensor<?x?xf32>, tensor<?x?xi32>, tensor<2xi32>) -> tensor<?x?x?xf32>
    return %4 : tensor<?x?xf32>
  }
  func.func @conv(%x: tensor<1x8x8x4xf32>, %w: tensor<3x3x2x6xf32>, %p: tensor<2x2xi64>) -> tensor<?x?x?x?xf32> {
    %0 = "stablehlo.dynamic_conv"(%x, %w, %p) <{batch_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]>, feature_group_count = 2 : i64, lhs_dilation = array<i64: 2, 1>, rhs_dilation = array<i64: 1, 2>, window_reversal = array<i1: true, false>, window_strides = array<i64: 2, 3>}> : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>, tensor<2x2xi64>) -> tensor<?x?x?x?xf32>
    %1 = stablehlo.convolution(%x, %w) dim_numbers = [b, 1, 0, f]x[1, 0, i, o]->[f, 0, b, 1], window = {stride = [2, 1], pad = [[1, 0], [2, 2]], lhs_dilate = [1, 2], rhs_dilate = [2, 1], reverse = [true, false]} {batch_group_count = 1 : i64, feature_group_count = 2 : i64, precision_config = [#stablehlo<precision HIGH>, #stablehlo<precision DEFAULT>]} : (tensor<1x8x8x4xf32>, tensor<3x3x2x6xf32>) -> tensor<6x3x1x17xf32>
    return %0 : tensor<?x?x?x?xf32>
  }
  func.func @collectives(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = "stablehlo.all_gather"(%x) <{all_gather_dim = 1 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 0>, replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, use_global_device_ids}> : (tensor<4x8xf32>) -> tensor<4x16xf32>
    %1:2 = "stablehlo.all_reduce"(%x, %x) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
    %2 = "stablehlo.all_to_all"(%x) <{concat_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, split_count = 2 : i64, split_dimension = 1 : i64}> : (tensor<4x8xf32>) -> tensor<8x4xf32>
    %3 = "stablehlo.collective_broadcast"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 7, type = 0>, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %4 = "stablehlo.collective_permute"(%3) <{source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %5 = "stablehlo.cross-replica-sum"(%4) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %6 = stablehlo.replica_id : tensor<ui32>
    %7 = stablehlo.partition_id {mhlo.x = 1 : ui8} : tensor<ui32>
    return %5 : tensor<4x8xf32>
  }
  func.func @control(%p: tensor<i1>, %i: tensor<i32>, %x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = "stablehlo.if"(%p) ({
      stablehlo.return %x : tensor<4xf32>
    }, {
      %n = stablehlo.negate %x : tensor<4xf32>
      stablehlo.return %n : tensor<4xf32>
    }) : (tensor<i1>) -> tensor<4xf32>
    %1 = "stablehlo.case"(%i) ({
      stablehlo.return %0 : tensor<4xf32>
    }) : (tensor<i32>) -> tensor<4xf32>
    %2 = "stablehlo.map"(%1, %x) <{dimensions = array<i64: 0>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.multiply %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32>
    }) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %3:2 = stablehlo.while(%a = %2, %k = %i) : tensor<4xf32>, tensor<i32> attributes {mhlo.loop = "x"}
    cond {
      %c = stablehlo.compare LT, %k, %i, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %k1 = func.call @next(%k) : (tensor<i32>) -> tensor<i32>
      stablehlo.return %a, %k1 : tensor<4xf32>, tensor<i32>
    }
    %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3#0 init: %z) applies stablehlo.maximum across dimensions = [0] : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
    %5:2 = stablehlo.reduce(%3#0 init: %z), (%x init: %z) across dimensions = [0] {mhlo.y = 3 : i8} : (tensor<4xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
     reducer(%a: tensor<f32>, %b: tensor<f32>) (%c: tensor<f32>, %d: tensor<f32>)  {
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s, %d : tensor<f32>, tensor<f32>
    }
    return %3#0 : tensor<4xf32>
  }
  func.func private @next(%k: tensor<i32>) -> tensor<i32> {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %k, %c : tensor<i32>
    return %0 : tensor<i32>
  }
  func.func @others(%x: tensor<3x4xf32>, %i: tensor<2xi32>, %q: tensor<3x4xbf16>, %z: tensor<3xcomplex<f32>>) -> (tensor<3x3xf32> {jax.result_info = "a"}, tensor<2x4xf32>) {
    %0 = stablehlo.einsum %x, %x, config = "ab,cb->ac" : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>
    %1 = stablehlo.unary_einsum %x, config = "ab->a" : (tensor<3x4xf32>) -> tensor<3xf32>
    %2 = "stablehlo.torch_index_select"(%x, %i) <{batch_dims = 0 : i64, dim = 0 : i64}> : (tensor<3x4xf32>, tensor<2xi32>) -> tensor<2x4xf32>
    %3 = stablehlo.broadcast %x, sizes = [2] : (tensor<3x4xf32>) -> tensor<2x3x4xf32>
    %4 = stablehlo.dot %0, %x, precision = [HIGHEST, HIGHEST] {mhlo.z = -7 : i64} : (tensor<3x3xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    %5 = stablehlo.composite "my.op" %x {composite_attributes = {k = 3 : i64}, decomposition = @id, version = 2 : i32} : (tensor<3x4xf32>) -> tensor<3x4xf32>
    %6 = stablehlo.cholesky %0, lower = true : tensor<3x3xf32>
    %7 = stablehlo.compare GE, %x, %x, TOTALORDER : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xi1>
    %8 = stablehlo.reduce_precision %x, format = e5m2 : tensor<3x4xf32>
    %9 = stablehlo.select %7, %x, %x : tensor<3x4xi1>, tensor<3x4xf32>
    %10 = stablehlo.slice %x [0:3:2, 1:4] : (tensor<3x4xf32>) -> tensor<2x3xf32>
    %11 = stablehlo.exponential %x {result_accuracy = #stablehlo.result_accuracy<atol = 1.000000e-05, ulps = 3, mode = #stablehlo.result_accuracy_mode<TOLERANCE>>} : tensor<3x4xf32>
    %12 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x3xf32>
    %13 = stablehlo.add %q, %q : tensor<3x4xbf16>
    %14 = stablehlo.abs %z : (tensor<3xcomplex<f32>>) -> tensor<3xf32>
    %15 = stablehlo.complex %1, %14 : tensor<3xcomplex<f32>>
    %16 = stablehlo.constant {mhlo.w = "w"} dense<[1, -2, 7, -8]> : tensor<4xi4>
    %17 = stablehlo.constant dense<[[(0x7F800000,1.000000e+00), (2.500000e+00,-0.000000e+00)]]> : tensor<1x2xcomplex<f32>>
    %18 = stablehlo.constant dense<[1, 3, 0]> : tensor<3xui2>
    %19 = stablehlo.constant dense<[0.5, -6.0, 1.5]> : tensor<3xf4E2M1FN>
    %20 = stablehlo.constant dense<[0x7F, 448.0, 1.5]> : tensor<3xf8E4M3FN>
    %21 = stablehlo.constant dense<[0x80, 240.0, 0x00]> : tensor<3xf8E4M3FNUZ>
    %22 = stablehlo.constant dense<[0.123456789, 1.0e-320, 3.0]> : tensor<3xf64>
    %23 = stablehlo.constant dense<18446744073709551615> : tensor<2xui64>
    return %0, %2 : tensor<3x3xf32>, tensor<2x4xf32>
  }
  func.func private @id(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
    return %x : tensor<3x4xf32>
  }
}
