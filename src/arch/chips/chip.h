// Chip: every number of one chip, read from a data file (arch/chips/*.json) in which each number has a unit and a
// source. Adding a number: a field here, a row in kNumberRows (chip_numbers.cpp) and the entry in each file that is not
// `like` another. Invariant: a Chip that was returned is complete, and every number lies within its row's limits.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/chips/facts.h"
#include "arch/chips/feature.h"
#include "base/result.h"

namespace trine::arch {

// Per core unless a comment says chip. Rates are bytes per ns (= GB/s). The meaning of each number is in its row.
struct Chip {
  std::string name, title;
  std::vector<std::string> aliases;  // other spellings, e.g. a compiler's target names
  Features features;

  int64_t generation = 0;  // of the core: 2 is NeuronCore-v2
  int64_t cores = 0;       // chip
  int64_t lnc_default = 0, lnc_max = 0;
  int64_t partitions = 0;

  struct {
    int64_t bytes_per_partition = 0, reserved_bytes_per_partition = 0;
    int64_t stride_full_bytes = 0;
    double stride_factor = 0;
    double latency_cycles = 0;
  } sbuf;
  struct {
    int64_t banks = 0, bank_bytes = 0;  // bank_bytes: per partition
  } psum;
  struct {
    int64_t bytes = 0, stacks = 0;      // chip
    double bandwidth_bytes_per_ns = 0;  // chip
  } hbm;

  struct {
    double clock_ghz = 0;
    int64_t rows = 0, columns = 0, stationary_max = 0, moving_max = 0, moving_max_bf16 = 0;
    double interval_min_cycles = 0, latency_cycles = 0;
    double fp32_passes = 0, fp32_transpose_passes = 0, load_fast_factor = 0;
    double double_row_factor = 0, mx_factor = 0, mx_fp4_factor = 0, sparse_factor = 0;
  } tensor;
  struct {
    double clock_ghz = 0, interval_min_cycles = 0, access_cycles = 0, latency_cycles = 0;
    double fast_factor = 0, half_fast_factor = 0, tensor_tensor_fast_factor = 0, two_input_factor = 0;
    double reciprocal_factor = 0;
    double lane_flops_per_cycle = 0;
  } vector;
  struct {
    double clock_ghz = 0, interval_min_cycles = 0, access_cycles = 0, latency_cycles = 0, fast_factor = 0;
    double table_load_ns = 0;
    double lane_flops_per_cycle = 0;
  } scalar;
  struct {
    double clock_ghz = 0, interval_min_cycles = 0, latency_cycles = 0, fixed_cycles = 0;
    int64_t processors = 0;
  } gpsimd;
  struct {
    double clock_ghz = 0;
  } sync;
  struct {
    double control_cycles = 0, dynamic_address_min_cycles = 0;
    int64_t registers = 0;
  } sequencer;

  struct {
    int64_t engines_per_core = 0, rings = 0, partitions_per_engine = 0;
    double rate_bytes_per_ns = 0, peak_bytes_per_ns = 0;  // one engine: sustained, theoretical
    int64_t descriptor_bytes = 0, far_bytes = 0, descriptor_bytes_max = 0, packet_bytes = 0;
    double descriptor_ns = 0, descriptor_strided_ns = 0, descriptor_far_ns = 0;
    double ring_turnaround_ns = 0, start_gpsimd_ns = 0, start_sync_ns = 0, completion_ns = 0;
    double hwdge_issue_ns = 0, swdge_issue_ns = 0;
    double transpose_load_fraction = 0, transpose_sbuf_fraction = 0, compute_fraction = 0;
  } dma;

  struct {
    int64_t count = 0;
    double latency_ns = 0;
  } semaphore;
  struct {
    double start_fraction = 0, ramp_ns = 0, window_ns = 0, threshold_fraction = 0;
  } throttle;
  struct {
    double preamble_ns = 0, teardown_ns = 0, launch_ns = 0;
  } kernel;

  struct {
    int64_t count = 0;                  // chip
    double bandwidth_bytes_per_ns = 0;  // chip, both directions together
    double hop_ns = 0;
  } link;
  struct {
    int64_t cores = 0, packet_bytes = 0;  // cores: chip
    double start_ns = 0;
  } collective;

  struct {
    double chip_watts = 0, idle_watts = 0;
    double cell_cycle_pj = 0, lane_element_pj = 0, hbm_byte_pj = 0, sbuf_byte_pj = 0, link_byte_pj = 0;
  } power;

  struct Peak {
    double is = 0;
    std::string from;
  };
  std::map<std::string, Peak, std::less<>> published;  // the maker's own figures, by the names of arch/chips/peaks.h
  Sources sources;                                     // of each number (by path) and "features.<name>"

  bool has(Feature f) const { return features.has(f); }
  int64_t sbuf_bytes() const { return sbuf.bytes_per_partition * partitions; }
  int64_t psum_bytes() const { return psum.banks * psum.bank_bytes * partitions; }
  int64_t cores_per_stack() const { return cores > hbm.stacks ? cores / hbm.stacks : 1; }
  int64_t stack_of_core(int64_t core) const { return core / cores_per_stack() % hbm.stacks; }
  double stack_bytes_per_ns() const { return hbm.bandwidth_bytes_per_ns / static_cast<double>(hbm.stacks); }
  double tensor_flops_per_ns() const {  // one core, 16-bit
    return 2.0 * static_cast<double>(tensor.rows * tensor.columns) * tensor.clock_ghz;
  }
};

using NumberRow = Fact<Chip>;
std::span<const NumberRow> number_rows();
double read_number(const Chip& chip, const NumberRow& row);

std::span<const Chip> all_chips();                     // built in, oldest generation first
Result<const Chip*> find_chip(std::string_view name);  // by name or alias, any case; the error names the nearest
Result<Chip> parse_chip(std::string_view json, std::string_view file_name);
Result<Chip> load_chip_file(const std::string& path);

}  // namespace trine::arch
