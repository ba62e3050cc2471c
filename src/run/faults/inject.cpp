// Refusals and flipped bits; see inject.h.
#include "run/faults/inject.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "base/text.h"
#include "run/faults/dump.h"

namespace trine::run {

Injector& Injector::process() {
  static auto* const kInjector = new Injector;  // outlives the devices' threads
  return *kInjector;
}

void Injector::set(Faults faults, std::string dump_folder, int64_t timeout_s) {
  faults_ = std::move(faults);
  dump_folder_ = std::move(dump_folder);
  timeout_s_ = timeout_s;
  if (!runs_) runs_ = std::make_unique<std::atomic<int64_t>[]>(kCores);
  is_on_ = !faults_.empty();
}

Injector::Ruling Injector::before(int64_t core, CoreCounters& counters, std::string_view program) {
  Ruling out;
  out.run = runs_[size_t(core) % kCores].fetch_add(1, std::memory_order_relaxed);
  for (const InjectedFault& f : faults_) {
    if ((f.core >= 0 && f.core != core) || out.run < f.after) continue;
    std::string why;
    if (f.sort == FaultSort::lost) {
      counters.lost = 1;
      out.status = Status::exec_unit_unrecoverable, why = "the core is lost; a reset is needed";
    } else if (f.sort == FaultSort::stuck) {
      out.status = Status::timeout;
      why = cat("nothing moved for ", timeout_s_, " s of the chip's time (NEURON_RT_EXEC_TIMEOUT): semaphore s",
                f.semaphore, " is stuck");
    } else if (f.sort == FaultSort::ecc) {
      if (out.run == f.after) counters.ecc[size_t(f.ecc)] += f.count;
      if (f.ecc == PageEcc::mem_uncorrected)
        out.status = Status::exec_hw_err_hbm_ue, why = "an uncorrectable error of HBM";
      if (f.ecc == PageEcc::sram_uncorrected)
        out.status = Status::exec_hw_err_nc_ue, why = "an uncorrectable error of SBUF";
      if (out.run != f.after) out.status = Status::success, why.clear();  // once
    }
    if (why.empty()) continue;
    std::string message = cat(status_text(out.status), ": ", program, " on core ", core, ", run ", out.run, ": ", why,
                              " (injected: ", f.text, ")");
    if (!dump_folder_.empty()) {
      const auto file = write_dump(dump_folder_, refused_dump(program, core, out.status, message));
      message += file ? cat("; core dump → ", *file) : cat("; no core dump: ", file.error().text());
    }
    out.failure = fail(Code::io, std::move(message));
    return out;
  }
  return out;
}

void Injector::after(int64_t core, int64_t run, std::span<const std::span<std::byte>> outputs) const {
  for (const InjectedFault& f : faults_) {
    if (f.sort != FaultSort::flip || (f.core >= 0 && f.core != core)) continue;
    if (f.rate > 0) {
      if (run < f.after) continue;
      std::mt19937_64 draw(f.seed + uint64_t(run) * 0x9E3779B97F4A7C15 + uint64_t(core));
      for (const auto& bytes : outputs) {
        if (bytes.empty()) continue;
        const double bits = double(bytes.size()) * 8;
        std::poisson_distribution<int64_t> count(std::min(bits * f.rate, 65536.0));
        std::uniform_int_distribution<size_t> position(0, bytes.size() * 8 - 1);
        for (int64_t n = count(draw); n > 0; --n) {
          const size_t bit = position(draw);
          bytes[bit / 8] ^= std::byte(1u << bit % 8);
        }
      }
      continue;
    }
    if (run != f.after || f.space != arch::Space::hbm) continue;
    // Results of native runs have no place of their own: the address counts over them, one after the other.
    auto at = size_t(f.address + f.bit / 8);
    for (size_t o = 0; o < outputs.size(); ++o) {
      const bool is_named = !f.tensor.empty() && f.tensor == cat("out", o);
      if ((f.tensor.empty() || is_named) && at < outputs[o].size()) {
        outputs[o][at] ^= std::byte(1u << f.bit % 8);
        break;
      }
      if (f.tensor.empty()) at -= outputs[o].size();
    }
  }
}

}  // namespace trine::run
