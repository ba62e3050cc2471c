// Published figures recomputed from the parts; see peaks.h.
#include "arch/chips/peaks.h"

#include <algorithm>

namespace trine::arch {

namespace {

double core_tflops(const Chip& c) { return c.tensor_flops_per_ns() / 1e3; }
double cores(const Chip& c) { return static_cast<double>(c.cores); }
double lanes_tflops(const Chip& c, double flops_per_cycle, double ghz) {
  return static_cast<double>(c.partitions) * flops_per_cycle * ghz / 1e3;
}
double fp8_factor(const Chip& c) { return std::max(c.tensor.double_row_factor, c.tensor.mx_factor); }

constexpr double kMiB = 0x1p20, kGiB = 0x1p30;

constexpr PeakRow kPeakRows[] = {
    {"fp32_tflops", "TFLOP/s", "chip, fp32",
     [](const Chip& c) { return cores(c) * core_tflops(c) / c.tensor.fp32_passes; }},
    {"bf16_tflops", "TFLOP/s", "chip, bf16, fp16, tf32", [](const Chip& c) { return cores(c) * core_tflops(c); }},
    {"fp8_tflops", "TFLOP/s", "chip, fp8 (MX where the chip has it)",
     [](const Chip& c) { return cores(c) * core_tflops(c) * fp8_factor(c); }},
    {"fp4_tflops", "TFLOP/s", "chip, MXFP4",
     [](const Chip& c) { return cores(c) * core_tflops(c) * c.tensor.mx_fp4_factor; }},
    {"sparse_tflops", "TFLOP/s", "chip, structured sparse",
     [](const Chip& c) { return cores(c) * core_tflops(c) * c.tensor.sparse_factor; }},
    {"int8_tops", "TOP/s", "chip, int8", nullptr},
    {"core_fp32_tflops", "TFLOP/s", "one core, fp32",
     [](const Chip& c) { return core_tflops(c) / c.tensor.fp32_passes; }},
    {"core_bf16_tflops", "TFLOP/s", "one core, bf16", core_tflops},
    {"core_fp8_tflops", "TFLOP/s", "one core, fp8 (MX where it has it)",
     [](const Chip& c) { return core_tflops(c) * fp8_factor(c); }},
    {"core_vector_tflops", "TFLOP/s", "one core's Vector, fp32",
     [](const Chip& c) { return lanes_tflops(c, c.vector.lane_flops_per_cycle, c.vector.clock_ghz); }},
    {"core_scalar_tflops", "TFLOP/s", "one core's Scalar, fp32",
     [](const Chip& c) { return lanes_tflops(c, c.scalar.lane_flops_per_cycle, c.scalar.clock_ghz); }},
    {"sbuf_mib", "MiB", "one core's SBUF", [](const Chip& c) { return static_cast<double>(c.sbuf_bytes()) / kMiB; }},
    {"psum_mib", "MiB", "one core's PSUM", [](const Chip& c) { return static_cast<double>(c.psum_bytes()) / kMiB; }},
    {"memory_gib", "GiB", "chip, device memory", [](const Chip& c) { return static_cast<double>(c.hbm.bytes) / kGiB; }},
    {"memory_bytes_per_ns", "GB/s", "chip, device memory", [](const Chip& c) { return c.hbm.bandwidth_bytes_per_ns; }},
    {"dma_engines", "", "chip, without the host's",
     [](const Chip& c) { return cores(c) * static_cast<double>(c.dma.engines_per_core); }},
    {"dma_bytes_per_ns", "GB/s", "chip, all DMA engines",
     [](const Chip& c) { return cores(c) * static_cast<double>(c.dma.engines_per_core) * c.dma.peak_bytes_per_ns; }},
};

}  // namespace

std::span<const PeakRow> peak_rows() { return kPeakRows; }

const PeakRow* find_peak(std::string_view name) {
  for (const PeakRow& row : kPeakRows)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace trine::arch
