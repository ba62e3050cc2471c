// The GpSimd engine's rows come from several files, by kind; gpsimd.cpp joins them. Eight processors, each wired to 16
// neighbouring partitions of SBUF and to no PSUM.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "arch/insns/lanes.h"
#include "arch/row.h"

namespace trine::arch {

std::span<const Row> gpsimd_pattern_rows();  // iota, affine_select
std::span<const Row> gpsimd_gather_rows();   // local_gather, nc_n_gather
std::span<const Row> gpsimd_select_rows();   // topk, nonzero_with_count, sequence_bounds, tensor_partition_reduce

inline constexpr int kProcessorPartitions = 16;

// The published shape of GpSimd costs: fixed cycles to start, then some steps.
Cost gpsimd_cost(const Chip& k, const Call& i, double steps);

// Elements `at` of one row as raw bits. Only these have to have been written; an index outside the row is a fault and
// 0.
std::vector<uint32_t> read_elements(Core& c, const Tile& t, std::string_view slot, int row,
                                    std::span<const int64_t> at);

// The slot's dtype is one of those named.
Result<void> dtype_is(const Call& i, std::string_view slot, std::initializer_list<Dtype> allowed);
// The slot's partitions are whole processors.
Result<void> whole_processors(const Call& i, std::string_view slot);

}  // namespace trine::arch
