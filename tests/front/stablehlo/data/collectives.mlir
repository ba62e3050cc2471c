// Shardy's collectives: plain bytecode and text only, since they cannot be in a portable artifact.
module @collectives {
  sdy.mesh @mesh = <["x"=4, "y"=2]>
  func.func @collectives(%x: tensor<16x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> tensor<16x16xf32> {
    %0 = sdy.all_gather [{"x"}, {}] %x out_sharding=<@mesh, [{}, {}]> : tensor<16x16xf32>
    %1 = sdy.all_slice [{}, {"x":(1)2}] %0 out_sharding=<@mesh, [{}, {"x":(1)2}]> : tensor<16x16xf32>
    %2 = sdy.all_to_all [{"x":(1)2}: 1->0] %1 out_sharding=<@mesh, [{"x":(1)2}, {}]> : tensor<16x16xf32>
    %3 = sdy.collective_permute %2 out_sharding=<@mesh, [{"y"}, {}]> : tensor<16x16xf32>
    %4 = sdy.all_reduce {"x"} %3 out_sharding=<@mesh, [{"y"}, {}]> : tensor<16x16xf32>
    %5 = sdy.reduce_scatter [{"x"}, {}] %4 out_sharding=<@mesh, [{"y", "x"}, {}]> : tensor<16x16xf32>
    return %5 : tensor<16x16xf32>
  }
}
