// The formulas; see rates.h.
#include "arch/rates.h"

namespace trine::arch {

EngineClock clock_of(const Chip& k, Engine engine) {
  switch (engine) {
    case Engine::tensor:
      return {k.tensor.clock_ghz, k.tensor.latency_cycles};
    case Engine::vector:
      return {k.vector.clock_ghz, k.vector.latency_cycles};
    case Engine::scalar:
      return {k.scalar.clock_ghz, k.scalar.latency_cycles};
    case Engine::gpsimd:
      return {k.gpsimd.clock_ghz, k.gpsimd.latency_cycles};
    case Engine::sync:
      break;
  }
  return {k.sync.clock_ghz, 0};
}

Dge dge_of(const Chip& k, Engine engine, Dge asked) {
  if (asked != Dge::unknown) return asked;
  if (engine == Engine::gpsimd) return Dge::swdge;
  const bool drives_hwdge = engine == Engine::scalar || engine == Engine::sync;
  return k.has(Feature::hwdge) && drives_hwdge ? Dge::hwdge : Dge::none;
}

TransferRate rate_of(const Chip& k, const Transfer& t, Dge dge, int sharing) {
  const auto& d = k.dma;
  const bool software = dge == Dge::swdge;
  return {.issue_ns = software            ? d.swdge_issue_ns
                      : dge == Dge::hwdge ? d.hwdge_issue_ns
                                          : 0,
          .start_ns = software ? d.start_gpsimd_ns : d.start_sync_ns,
          .stack_ns = static_cast<double>((t.hbm_read + t.hbm_write) * sharing) / k.stack_bytes_per_ns()};
}

double share_ns(const Chip& k, const Transfer& t, const Transfer::Share& share) {
  const auto& d = k.dma;
  return static_cast<double>(share.bytes) / (d.rate_bytes_per_ns * t.rate_fraction) +
         static_cast<double>(share.descriptors - share.strided_descriptors) * d.descriptor_ns +
         static_cast<double>(share.strided_descriptors) * (t.far ? d.descriptor_far_ns : d.descriptor_strided_ns);
}

}  // namespace trine::arch
