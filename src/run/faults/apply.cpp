// Faults as changes of a program, of time options, of memory; see apply.h.
#include "run/faults/apply.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "arch/row.h"
#include "base/text.h"

namespace trine::run {

namespace {

bool is_of(const InjectedFault& f, int core) { return f.core < 0 || f.core == core; }

// So many flips as the rate gives over the bytes of inputs and outputs, at places drawn from the seed.
void draw(const arch::Program& program, const InjectedFault& f, std::vector<Flip>& out) {
  constexpr size_t kMost = 1 << 16;
  std::mt19937_64 draw(f.seed);
  for (uint32_t t = 0; t < program.tensors.size(); ++t) {
    const arch::Tensor& tensor = program.tensors[t];
    const bool is_seen = tensor.kind == arch::TensorKind::input || tensor.kind == arch::TensorKind::output;
    if (!is_seen || tensor.space != arch::Space::hbm || tensor_bytes(tensor) == 0) continue;
    const double bits = double(tensor_bytes(tensor)) * 8;
    std::poisson_distribution<int64_t> count(std::min(bits * f.rate, double(kMost)));
    std::uniform_int_distribution<int64_t> position(0, int64_t(bits) - 1);
    for (int64_t n = count(draw); n > 0 && out.size() < kMost; --n) {
      const int64_t bit = position(draw);
      const bool is_input = tensor.kind == arch::TensorKind::input;
      out.push_back({.tensor = int64_t(t), .byte = bit / 8, .bit = int(bit % 8), .at_end = !is_input});
    }
  }
}

Result<Flip> one(const arch::Program& program, const InjectedFault& f) {
  Flip out{.core = int(std::max<int64_t>(f.core, 0)), .bit = int(f.bit % 8), .after = f.instructions};
  out.byte = f.address + f.bit / 8;
  if (!f.tensor.empty()) {
    out.tensor = program.find_tensor(f.tensor);
    if (out.tensor < 0) return fail(Code::not_found, cat("fault: no tensor is called ", f.tensor), program.name);
    const arch::Tensor& t = program.tensors[size_t(out.tensor)];
    if (out.byte >= tensor_bytes(t))
      return fail(Code::out_of_range, cat("fault: byte ", out.byte, " of ", f.tensor, ", which has ", tensor_bytes(t)));
    out.at_end = t.kind == arch::TensorKind::output && f.instructions == 0;
    return out;
  }
  if (f.space != arch::Space::hbm) {
    out.space = f.space, out.partition = f.partition;
    return out;
  }
  for (size_t t = 0; t < program.tensors.size(); ++t) {
    const arch::Tensor& tensor = program.tensors[t];
    if (tensor.space != arch::Space::hbm || tensor.alias >= 0) continue;
    if (out.byte < tensor.address || out.byte >= tensor.address + tensor_bytes(tensor)) continue;
    out.tensor = int64_t(t), out.byte -= tensor.address;
    out.at_end = tensor.kind == arch::TensorKind::output && f.instructions == 0;
    return out;
  }
  std::string there;
  for (const arch::Tensor& t : program.tensors)
    if (t.space == arch::Space::hbm && t.alias < 0 && there.size() < 200)
      there += cat(there.empty() ? "" : ", ", t.name, " at ", t.address, " to ", t.address + tensor_bytes(t));
  return fail(Code::out_of_range, cat("fault: no tensor lies at hbm@", out.byte, "; there are ", there), program.name);
}

}  // namespace

arch::Program with_faults(const arch::Program& program, const Faults& faults) {
  arch::Program out = program;
  for (const InjectedFault& f : faults) {
    if (f.sort != FaultSort::stuck) continue;
    for (arch::Stream& stream : out.streams) {
      if (!is_of(f, stream.core)) continue;
      for (arch::Insn& insn : stream.insns) {
        if (!insn.updates) continue;
        const auto first = uint32_t(out.updates.size());  // its own: rows may be shared with another core
        for (uint32_t i = 0; i < insn.updates; ++i) {
          arch::Update u = out.updates[insn.update + i];
          if (u.semaphore == f.semaphore) u.op = arch::UpdateOp::add, u.value = 0;
          out.updates.push_back(u);
        }
        insn.update = first;
      }
    }
  }
  return out;
}

void slow_down(const arch::Program& program, const Faults& faults, sim::TimeOptions& options) {
  for (const InjectedFault& f : faults) {
    if (f.sort == FaultSort::slow) {
      options.dma_engine_scale.resize(std::max(options.dma_engine_scale.size(), size_t(f.engine) + 1), 1);
      options.dma_engine_scale[size_t(f.engine)] *= f.by;
    }
    if (f.sort != FaultSort::throttle) continue;
    for (uint32_t s = 0; s < program.streams.size(); ++s)
      for (uint32_t i = 0; is_of(f, program.streams[s].core) && i < program.streams[s].insns.size(); ++i)
        if (arch::row_by_opcode(program.streams[s].insns[i].opcode)->row->unit != arch::Unit::queue)
          options.scales.push_back({.stream = s, .insn = i, .execute = f.by, .load = f.by});
  }
}

Result<std::vector<Flip>> flips_of(const arch::Program& program, const Faults& faults) {
  std::vector<Flip> out;
  for (const InjectedFault& f : faults) {
    if (f.sort != FaultSort::flip) continue;
    if (f.rate > 0)
      draw(program, f, out);
    else
      out.push_back(TRY(one(program, f)));
  }
  std::stable_sort(out.begin(), out.end(), [](const Flip& a, const Flip& b) { return a.after < b.after; });
  return out;
}

}  // namespace trine::run
