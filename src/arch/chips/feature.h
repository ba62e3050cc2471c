// What a core generation can do. Code asks for a feature, never for a chip's name; chip files list them with a source.
// Adding one: an enumerator and its row in kFeatureRows.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace trine::arch {

enum class Feature : uint8_t {
  base,  // every chip has it
  fp8,
  fp8_ocp,
  double_row,
  mx,
  sparse,
  transpose_mode,
  fp32_background_load,
  tile_4x32,
  psum_bf16,
  accumulate_any,
  vector_fast_modes,
  fp8_fast,
  scalar_fast_modes,
  scalar_copy,
  scalar_bias_immediate,
  activate2,
  exponential,
  abs_ops,
  range_select,
  xorwow,
  gpsimd_rng,
  gpsimd_select,
  gpsimd_dma,
  indirect_free_gather,
  hwdge,
  dma_indirect,
  dma_qos,
  dma_read_add_write,
  core_pair,
  shared_ports,
  throttle,
  count_,
};

struct FeatureRow {
  Feature feature;
  std::string_view name, meaning;
};

inline constexpr FeatureRow kFeatureRows[] = {
    {Feature::base, "base", "present on every chip, never listed in a file"},
    {Feature::fp8, "fp8", "8-bit floats on the tensor engine"},
    {Feature::fp8_ocp, "fp8_ocp", "OCP e4m3fn; without it e4m3 is the kind that ends at 240"},
    {Feature::double_row, "double_row", "fp8 matmul over twice the rows in the same cycles"},
    {Feature::mx, "mx", "MX block formats: nc_matmul_mx, quantize_mx"},
    {Feature::sparse, "sparse", "structured-sparse matmul in hardware (no public call)"},
    {Feature::transpose_mode, "transpose_mode", "bit-exact transpose on the tensor engine, source dtype into PSUM"},
    {Feature::fp32_background_load, "fp32_background_load", "fp32 weights load while the multiply before them runs"},
    {Feature::tile_4x32, "tile_4x32", "the array splits into 4x32 sub-arrays, not only 2x64"},
    {Feature::psum_bf16, "psum_bf16", "matmul may write bf16 to PSUM"},
    {Feature::accumulate_any, "accumulate_any", "matmul may add to PSUM that another engine wrote; undefined before"},
    {Feature::vector_fast_modes, "vector_fast_modes", "2x and 4x vector modes for 16-bit data"},
    {Feature::fp8_fast, "fp8_fast", "the vector fast modes take 8-bit floats too"},
    {Feature::scalar_fast_modes, "scalar_fast_modes", "tensor_scalar and tensor_copy on Scalar at 2x for 16-bit data"},
    {Feature::scalar_copy, "scalar_copy", "bit-exact tensor_copy and mul/add tensor_scalar on Scalar"},
    {Feature::scalar_bias_immediate, "scalar_bias_immediate",
     "activation bias may be one scalar; bias with reciprocal"},
    {Feature::activate2, "activate2", "activate2: sub, bypass and max/min/abs reductions on Scalar"},
    {Feature::exponential, "exponential", "exponential on Vector"},
    {Feature::abs_ops, "abs_ops", "abs_max, abs_min; square and relu in tensor_scalar"},
    {Feature::range_select, "range_select", "range_select on Vector"},
    {Feature::xorwow, "xorwow", "XORWOW generator on Vector (rand2, 24-word state); LFSR before"},
    {Feature::gpsimd_rng, "gpsimd_rng", "rng and its 6-word state on GpSimd"},
    {Feature::gpsimd_select, "gpsimd_select", "nonzero_with_count on GpSimd"},
    {Feature::gpsimd_dma, "gpsimd_dma", "each GpSimd processor has its own DMA engine"},
    {Feature::indirect_free_gather, "indirect_free_gather",
     "gather and scatter along the free dimension by an index tile"},
    {Feature::hwdge, "hwdge", "hardware descriptor generation driven by Scalar or Sync"},
    {Feature::dma_indirect, "dma_indirect", "indirect DMA (vector_offset) by software descriptors"},
    {Feature::dma_qos, "dma_qos", "four DMA priority classes; round robin before"},
    {Feature::dma_read_add_write, "dma_read_add_write", "DMA adds into SBUF at copy speed"},
    {Feature::core_pair, "core_pair", "two cores form one logical core: core_barrier, sendrecv"},
    {Feature::shared_ports, "shared_ports", "Vector and GpSimd exclude each other on SBUF, Vector and Scalar on PSUM"},
    {Feature::throttle, "throttle", "the current limiter holds the tensor engine back after idling"},
};

constexpr bool features_in_order() {
  for (size_t i = 0; i < std::size(kFeatureRows); ++i)
    if (static_cast<size_t>(kFeatureRows[i].feature) != i) return false;
  return std::size(kFeatureRows) == static_cast<size_t>(Feature::count_);
}
static_assert(features_in_order(), "kFeatureRows has one row per enumerator, in order");

constexpr std::string_view feature_name(Feature f) { return kFeatureRows[static_cast<size_t>(f)].name; }

class Features {
 public:
  Features() { add(Feature::base); }
  bool has(Feature f) const { return bits_[static_cast<size_t>(f)]; }
  void add(Feature f) { bits_.set(static_cast<size_t>(f)); }
  void remove(Feature f) { bits_.reset(static_cast<size_t>(f)); }

 private:
  std::bitset<static_cast<size_t>(Feature::count_)> bits_;
};

}  // namespace trine::arch
