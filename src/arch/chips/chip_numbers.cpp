// The table of a chip's numbers: path in the file, unit, field, meaning. The parser, `trine chips` and docs/chips.md
// are derived from it.
#include "arch/chips/chip.h"

namespace trine::arch {

namespace {

template <class Field>
constexpr NumberRow row(std::string_view path, std::string_view unit, Field field, std::string_view meaning,
                        double max = 0) {
  return fact<Chip>(path, unit, field, meaning, max);
}

constexpr NumberRow kNumberRows[] = {
    row(
        "generation", "count", [](Chip& c) -> auto& { return c.generation; }, "generation of the core", 99),
    row(
        "cores", "count", [](Chip& c) -> auto& { return c.cores; }, "physical cores on the chip", 256),
    row(
        "lnc_default", "count", [](Chip& c) -> auto& { return c.lnc_default; }, "cores in a logical core, unless told",
        8),
    row(
        "lnc_max", "count", [](Chip& c) -> auto& { return c.lnc_max; }, "most cores in a logical core", 8),
    row(
        "partitions", "count", [](Chip& c) -> auto& { return c.partitions; }, "lanes of SBUF and PSUM", 128),

    row(
        "sbuf.bytes_per_partition", "bytes", [](Chip& c) -> auto& { return c.sbuf.bytes_per_partition; },
        "state buffer of one partition", 0x1p20),
    row(
        "sbuf.reserved_bytes_per_partition", "bytes",
        [](Chip& c) -> auto& { return c.sbuf.reserved_bytes_per_partition; },
        "of these, taken by DMA scratch and constants", 0x1p20),
    row(
        "sbuf.stride_full_bytes", "bytes", [](Chip& c) -> auto& { return c.sbuf.stride_full_bytes; },
        "largest innermost stride read at full rate", 0x1p16),
    row(
        "sbuf.stride_factor", "factor", [](Chip& c) -> auto& { return c.sbuf.stride_factor; },
        "slower beyond that stride"),
    row(
        "sbuf.latency_cycles", "cycles", [](Chip& c) -> auto& { return c.sbuf.latency_cycles; },
        "fixed access latency, part of each engine's latency"),
    row(
        "psum.banks", "count", [](Chip& c) -> auto& { return c.psum.banks; }, "accumulation banks", 64),
    row(
        "psum.bank_bytes", "bytes", [](Chip& c) -> auto& { return c.psum.bank_bytes; }, "of one bank in one partition",
        0x1p16),
    row(
        "hbm.bytes", "bytes", [](Chip& c) -> auto& { return c.hbm.bytes; }, "device memory of the chip"),
    row(
        "hbm.stacks", "count", [](Chip& c) -> auto& { return c.hbm.stacks; }, "independent stacks of device memory",
        64),
    row(
        "hbm.bandwidth_bytes_per_ns", "bytes_per_ns", [](Chip& c) -> auto& { return c.hbm.bandwidth_bytes_per_ns; },
        "of all stacks together"),

    row(
        "tensor.clock_ghz", "ghz", [](Chip& c) -> auto& { return c.tensor.clock_ghz; }, "tensor engine clock"),
    row(
        "tensor.rows", "count", [](Chip& c) -> auto& { return c.tensor.rows; }, "rows of the array (contraction)", 128),
    row(
        "tensor.columns", "count", [](Chip& c) -> auto& { return c.tensor.columns; }, "columns of the array", 128),
    row(
        "tensor.stationary_max", "count", [](Chip& c) -> auto& { return c.tensor.stationary_max; },
        "free size of the stationary operand", 128),
    row(
        "tensor.moving_max", "count", [](Chip& c) -> auto& { return c.tensor.moving_max; },
        "free size of the moving operand, fp32 result"),
    row(
        "tensor.moving_max_bf16", "count", [](Chip& c) -> auto& { return c.tensor.moving_max_bf16; },
        "free size of the moving operand, bf16 result"),
    row(
        "tensor.interval_min_cycles", "cycles", [](Chip& c) -> auto& { return c.tensor.interval_min_cycles; },
        "issue floor of an instruction"),
    row(
        "tensor.latency_cycles", "cycles", [](Chip& c) -> auto& { return c.tensor.latency_cycles; },
        "from the last column in to its result in PSUM"),
    row(
        "tensor.fp32_passes", "passes", [](Chip& c) -> auto& { return c.tensor.fp32_passes; },
        "passes of an fp32 matmul, 16-bit = 1"),
    row(
        "tensor.fp32_transpose_passes", "passes", [](Chip& c) -> auto& { return c.tensor.fp32_transpose_passes; },
        "passes of an fp32 transpose"),
    row(
        "tensor.load_fast_factor", "factor", [](Chip& c) -> auto& { return c.tensor.load_fast_factor; },
        "columns of weights loaded per cycle"),
    row(
        "tensor.double_row_factor", "factor", [](Chip& c) -> auto& { return c.tensor.double_row_factor; },
        "contraction rows per pass with fp8 double_row, 1 without"),
    row(
        "tensor.mx_factor", "factor", [](Chip& c) -> auto& { return c.tensor.mx_factor; },
        "contraction rows per pass with MXFP8, 1 without"),
    row(
        "tensor.mx_fp4_factor", "factor", [](Chip& c) -> auto& { return c.tensor.mx_fp4_factor; },
        "contraction rows per pass with MXFP4, 1 without"),
    row(
        "tensor.sparse_factor", "factor", [](Chip& c) -> auto& { return c.tensor.sparse_factor; },
        "structured-sparse against dense peak, 1 without"),

    row(
        "vector.clock_ghz", "ghz", [](Chip& c) -> auto& { return c.vector.clock_ghz; }, "vector engine clock"),
    row(
        "vector.interval_min_cycles", "cycles", [](Chip& c) -> auto& { return c.vector.interval_min_cycles; },
        "issue floor of an instruction"),
    row(
        "vector.access_cycles", "cycles", [](Chip& c) -> auto& { return c.vector.access_cycles; },
        "of every instruction beside its elements"),
    row(
        "vector.latency_cycles", "cycles", [](Chip& c) -> auto& { return c.vector.latency_cycles; },
        "from the last issue cycle to the result in memory"),
    row(
        "vector.fast_factor", "factor", [](Chip& c) -> auto& { return c.vector.fast_factor; },
        "copy and tensor_scalar, 16-bit, SBUF to SBUF, contiguous"),
    row(
        "vector.half_fast_factor", "factor", [](Chip& c) -> auto& { return c.vector.half_fast_factor; },
        "the same when strided, or with one side in PSUM"),
    row(
        "vector.tensor_tensor_fast_factor", "factor",
        [](Chip& c) -> auto& { return c.vector.tensor_tensor_fast_factor; }, "tensor_tensor, 16-bit, inputs in SBUF"),
    row(
        "vector.two_input_factor", "factor", [](Chip& c) -> auto& { return c.vector.two_input_factor; },
        "cycles per element with two tile inputs"),
    row(
        "vector.reciprocal_factor", "factor", [](Chip& c) -> auto& { return c.vector.reciprocal_factor; },
        "cycles per element of reciprocal"),
    row(
        "vector.lane_flops_per_cycle", "flops_per_cycle",
        [](Chip& c) -> auto& { return c.vector.lane_flops_per_cycle; },
        "as the maker counts them, for the published peak only"),
    row(
        "scalar.clock_ghz", "ghz", [](Chip& c) -> auto& { return c.scalar.clock_ghz; }, "scalar engine clock"),
    row(
        "scalar.interval_min_cycles", "cycles", [](Chip& c) -> auto& { return c.scalar.interval_min_cycles; },
        "issue floor of an instruction"),
    row(
        "scalar.access_cycles", "cycles", [](Chip& c) -> auto& { return c.scalar.access_cycles; },
        "of every instruction beside its elements"),
    row(
        "scalar.latency_cycles", "cycles", [](Chip& c) -> auto& { return c.scalar.latency_cycles; },
        "from the last issue cycle to the result in memory"),
    row(
        "scalar.fast_factor", "factor", [](Chip& c) -> auto& { return c.scalar.fast_factor; },
        "copy and tensor_scalar on 16-bit data"),
    row(
        "scalar.table_load_ns", "ns", [](Chip& c) -> auto& { return c.scalar.table_load_ns; },
        "switch of the activation table"),
    row(
        "scalar.lane_flops_per_cycle", "flops_per_cycle",
        [](Chip& c) -> auto& { return c.scalar.lane_flops_per_cycle; },
        "as the maker counts them, for the published peak only"),
    row(
        "gpsimd.clock_ghz", "ghz", [](Chip& c) -> auto& { return c.gpsimd.clock_ghz; }, "GpSimd clock"),
    row(
        "gpsimd.interval_min_cycles", "cycles", [](Chip& c) -> auto& { return c.gpsimd.interval_min_cycles; },
        "issue floor of an instruction"),
    row(
        "gpsimd.latency_cycles", "cycles", [](Chip& c) -> auto& { return c.gpsimd.latency_cycles; },
        "from the last issue cycle to the result in memory"),
    row(
        "gpsimd.fixed_cycles", "cycles", [](Chip& c) -> auto& { return c.gpsimd.fixed_cycles; },
        "added to every instruction"),
    row(
        "gpsimd.processors", "count", [](Chip& c) -> auto& { return c.gpsimd.processors; },
        "processors, each with an equal share of the partitions", 64),
    row(
        "sync.clock_ghz", "ghz", [](Chip& c) -> auto& { return c.sync.clock_ghz; }, "sync engine clock"),
    row(
        "sequencer.control_cycles", "cycles", [](Chip& c) -> auto& { return c.sequencer.control_cycles; },
        "register, branch, semaphore and trigger instructions, any engine"),
    row(
        "sequencer.dynamic_address_min_cycles", "cycles",
        [](Chip& c) -> auto& { return c.sequencer.dynamic_address_min_cycles; },
        "floor of an instruction whose address is in a register"),
    row(
        "sequencer.registers", "count", [](Chip& c) -> auto& { return c.sequencer.registers; },
        "32-bit scalar registers of one engine", 1024),

    row(
        "dma.engines_per_core", "count", [](Chip& c) -> auto& { return c.dma.engines_per_core; }, "DMA engines", 64),
    row(
        "dma.rings", "count", [](Chip& c) -> auto& { return c.dma.rings; }, "rings (queues) of one engine", 64),
    row(
        "dma.partitions_per_engine", "count", [](Chip& c) -> auto& { return c.dma.partitions_per_engine; },
        "partitions of a tile that one engine serves", 128),
    row(
        "dma.rate_bytes_per_ns", "bytes_per_ns", [](Chip& c) -> auto& { return c.dma.rate_bytes_per_ns; },
        "what one engine sustains"),
    row(
        "dma.peak_bytes_per_ns", "bytes_per_ns", [](Chip& c) -> auto& { return c.dma.peak_bytes_per_ns; },
        "one engine's theoretical rate, for the published peak only"),
    row(
        "dma.descriptor_bytes", "bytes", [](Chip& c) -> auto& { return c.dma.descriptor_bytes; },
        "size of a descriptor itself", 4096),
    row(
        "dma.descriptor_bytes_max", "bytes", [](Chip& c) -> auto& { return c.dma.descriptor_bytes_max; },
        "most data one descriptor moves", 0x1p32),
    row(
        "dma.packet_bytes", "bytes", [](Chip& c) -> auto& { return c.dma.packet_bytes; },
        "after which another ring may have its turn", 0x1p32),
    row(
        "dma.descriptor_ns", "ns", [](Chip& c) -> auto& { return c.dma.descriptor_ns; },
        "per descriptor, rows contiguous in HBM"),
    row(
        "dma.descriptor_strided_ns", "ns", [](Chip& c) -> auto& { return c.dma.descriptor_strided_ns; },
        "per descriptor, rows apart in HBM"),
    row(
        "dma.descriptor_far_ns", "ns", [](Chip& c) -> auto& { return c.dma.descriptor_far_ns; },
        "the same when its HBM side lies at least far_bytes away"),
    row(
        "dma.far_bytes", "bytes", [](Chip& c) -> auto& { return c.dma.far_bytes; },
        "between HBM rows that cost more than their descriptor"),
    row(
        "dma.ring_turnaround_ns", "ns", [](Chip& c) -> auto& { return c.dma.ring_turnaround_ns; },
        "least time from one transfer of a ring to its next"),
    row(
        "dma.start_gpsimd_ns", "ns", [](Chip& c) -> auto& { return c.dma.start_gpsimd_ns; },
        "GpSimd's trigger to the first byte"),
    row(
        "dma.start_sync_ns", "ns", [](Chip& c) -> auto& { return c.dma.start_sync_ns; },
        "any other engine's trigger to the first byte"),
    row(
        "dma.completion_ns", "ns", [](Chip& c) -> auto& { return c.dma.completion_ns; },
        "last byte to the start of the waiting instruction"),
    row(
        "dma.hwdge_issue_ns", "ns", [](Chip& c) -> auto& { return c.dma.hwdge_issue_ns; },
        "sequencer time of a DMA with hardware descriptors"),
    row(
        "dma.swdge_issue_ns", "ns", [](Chip& c) -> auto& { return c.dma.swdge_issue_ns; },
        "GpSimd time of a DMA with software descriptors"),
    row(
        "dma.transpose_load_fraction", "fraction", [](Chip& c) -> auto& { return c.dma.transpose_load_fraction; },
        "of the copy rate when transposing HBM to SBUF"),
    row(
        "dma.transpose_sbuf_fraction", "fraction", [](Chip& c) -> auto& { return c.dma.transpose_sbuf_fraction; },
        "of the copy rate when transposing SBUF to SBUF"),
    row(
        "dma.compute_fraction", "fraction", [](Chip& c) -> auto& { return c.dma.compute_fraction; },
        "of the copy rate when the DMA adds"),

    row(
        "semaphore.count", "count", [](Chip& c) -> auto& { return c.semaphore.count; }, "semaphores of a core"),
    row(
        "semaphore.latency_ns", "ns", [](Chip& c) -> auto& { return c.semaphore.latency_ns; },
        "one engine's update to another engine's start"),
    row(
        "throttle.start_fraction", "fraction", [](Chip& c) -> auto& { return c.throttle.start_fraction; },
        "tensor rate after idling"),
    row(
        "throttle.ramp_ns", "ns", [](Chip& c) -> auto& { return c.throttle.ramp_ns; }, "until the full rate"),
    row(
        "throttle.window_ns", "ns", [](Chip& c) -> auto& { return c.throttle.window_ns; },
        "over which utilisation is watched"),
    row(
        "throttle.threshold_fraction", "fraction", [](Chip& c) -> auto& { return c.throttle.threshold_fraction; },
        "utilisation below which the limit returns"),
    row(
        "kernel.preamble_ns", "ns", [](Chip& c) -> auto& { return c.kernel.preamble_ns; },
        "before a kernel's first instruction"),
    row(
        "kernel.teardown_ns", "ns", [](Chip& c) -> auto& { return c.kernel.teardown_ns; }, "after its last"),
    row(
        "kernel.launch_ns", "ns", [](Chip& c) -> auto& { return c.kernel.launch_ns; },
        "the host's part of one launch that it waits for, around both"),

    row(
        "link.count", "count", [](Chip& c) -> auto& { return c.link.count; }, "links to other chips of the instance",
        1024),
    row(
        "link.bandwidth_bytes_per_ns", "bytes_per_ns", [](Chip& c) -> auto& { return c.link.bandwidth_bytes_per_ns; },
        "chip to chip, all links, both directions"),
    row(
        "link.hop_ns", "ns", [](Chip& c) -> auto& { return c.link.hop_ns; }, "latency of one hop"),
    row(
        "collective.cores", "count", [](Chip& c) -> auto& { return c.collective.cores; },
        "sequencers for collectives on the chip", 1024),
    row(
        "collective.packet_bytes", "bytes", [](Chip& c) -> auto& { return c.collective.packet_bytes; },
        "DMA packet of a collective", 0x1p32),
    row(
        "collective.start_ns", "ns", [](Chip& c) -> auto& { return c.collective.start_ns; },
        "a collective that moves nothing, beyond its hops"),

    row(
        "power.chip_watts", "watts", [](Chip& c) -> auto& { return c.power.chip_watts; }, "design power of the chip"),
    row(
        "power.idle_watts", "watts", [](Chip& c) -> auto& { return c.power.idle_watts; }, "powered, nothing running"),
    row(
        "power.cell_cycle_pj", "pj", [](Chip& c) -> auto& { return c.power.cell_cycle_pj; },
        "one cell of the tensor array, one cycle"),
    row(
        "power.lane_element_pj", "pj", [](Chip& c) -> auto& { return c.power.lane_element_pj; },
        "one element through Vector, Scalar or GpSimd"),
    row(
        "power.hbm_byte_pj", "pj", [](Chip& c) -> auto& { return c.power.hbm_byte_pj; }, "one byte to or from HBM"),
    row(
        "power.sbuf_byte_pj", "pj", [](Chip& c) -> auto& { return c.power.sbuf_byte_pj; },
        "one byte to or from SBUF or PSUM"),
    row(
        "power.link_byte_pj", "pj", [](Chip& c) -> auto& { return c.power.link_byte_pj; }, "one byte over a link"),
};

static_assert(facts_well_formed<Chip>(kNumberRows), "known unit, unit in the path, no path twice");

}  // namespace

std::span<const NumberRow> number_rows() { return kNumberRows; }

double read_number(const Chip& chip, const NumberRow& row) { return read_fact(chip, row); }

}  // namespace trine::arch
