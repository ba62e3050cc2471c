// Shardy's ops and attributes, also those JAX does not write.
module @sharding {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  sdy.mesh @ordered = <["a"=2, "b"=2], device_ids=[0, 2, 1, 3]>
  sdy.mesh @empty = <[]>
  sdy.mesh @one = <[], device_ids=[3]>
  func.func @constraints(%x: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x", ?}, {"y"}p1]>}, %y: tensor<8x8xf32> {sdy.sharding = #sdy.sharding<mesh<["z"=2]>, [{?}, {}], replicated={"z"}>}) -> (tensor<8x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x":(1)2, "y"}], replicated={"x":(2)2}>}) {
    %0 = sdy.sharding_constraint %x <@mesh, [{"y", "x"}, {?}]> : tensor<8x8xf32>
    %1 = sdy.reshard %0 <@mesh, [{}, {}], unreduced={"y"}> : tensor<8x8xf32>
    sdy.sharding_group %1 group_id=21 : tensor<8x8xf32>
    %2 = sdy.propagation_barrier %1 allowed_direction=BACKWARD : tensor<8x8xf32>
    %n = stablehlo.negate %2 : tensor<8x8xf32>
    %3 = sdy.data_flow_edge %n sharding=<@mesh, [{}, {}]> : tensor<8x8xf32>
    %m = stablehlo.negate %3 : tensor<8x8xf32>
    %4 = sdy.data_flow_edge %m : tensor<8x8xf32>
    %5 = sdy.constant dense<1.000000e+00> : tensor<8x8xf32>
    %6 = stablehlo.custom_call @foo(%4, %5) {sdy.sharding_rule = #sdy.op_sharding_rule<([i, j], [j, k])->([i, k]) {i=8, j=8, k=8} reduction={j}, custom>, sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>} : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    return %6 : tensor<8x8xf32>
  }
  func.func @manual(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
    %0 = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}, {"y"}]>] out_shardings=[<@mesh, [{"x"}, {"y"}]>] manual_axes={"x", "y"} (%a: tensor<2x4xf32>) {
      %1 = stablehlo.negate %a : tensor<2x4xf32>
      sdy.return %1 : tensor<2x4xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    %2 = sdy.named_computation<"body">(%0) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] (%b: tensor<8x8xf32>) {
      sdy.return %b : tensor<8x8xf32>
    } : (tensor<8x8xf32>) -> tensor<8x8xf32>
    return %2 : tensor<8x8xf32>
  }
}
