// Both: records a kernel twice, as a Trace to be scheduled and as a reference program that runs its instructions one
// after the other, every tensor at an address of its own. Their outputs must be the same bytes.
#pragma once

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "arch/asm/asm.h"
#include "arch/chips/chip.h"
#include "arch/program/builder.h"
#include "compile/stream/streams.h"
#include "front/nki/trace.h"
#include "run/drivers/exact/exact.h"
#include "tests/testing.h"

namespace trine::front {

// A chip with memory for a program that never uses an address twice.
inline arch::Chip roomy(const arch::Chip& chip) {
  arch::Chip big = chip;
  big.sbuf.bytes_per_partition = int64_t{1} << 24;
  big.psum.banks = 1 << 12;
  return big;
}

inline std::vector<std::byte> noise(int64_t bytes, uint32_t seed) {
  std::vector<std::byte> out(static_cast<size_t>(bytes));
  for (size_t i = 0; i + 4 <= out.size(); i += 4) {
    seed = seed * 1664525u + 1013904223u;
    const float f = static_cast<float>(seed >> 8) / static_cast<float>(1 << 24) - 0.5f;
    std::memcpy(out.data() + i, &f, 4);
  }
  return out;
}

class Both {
 public:
  explicit Both(const arch::Chip& chip, int cores = 1)
      : chip_(chip), big_(roomy(chip)), trace_(must(Trace::make("kernel", chip, cores))), plain_("kernel") {
    plain_.program().cores = static_cast<uint8_t>(cores);
  }

  uint32_t tensor(const TensorArgs& args) {
    const uint32_t index = must(trace_.tensor(args));
    arch::Tensor t;
    t.name = "t" + std::to_string(index);
    t.space = args.space;
    t.dtype = *dtype_by_name(args.dtype);
    t.shape = args.shape;
    t.kind = args.kind;
    t.core = static_cast<uint8_t>(args.core);
    t.address = plain_.allocator.next(t.space, args.core);
    plain_.add_tensor(t);
    names_.push_back(args.name);
    return index;
  }

  uint32_t tile(const TileArgs& args) {
    const uint32_t handle = must(trace_.tile(args));
    arch::Pattern p;
    const arch::Tensor& t = plain_.program().tensors[args.tensor];
    p.dtype = args.dtype.empty() ? t.dtype : *dtype_by_name(args.dtype);
    p.rank = static_cast<uint8_t>(args.dims.size());
    p.partitions = static_cast<uint16_t>(args.partitions);
    p.partition_stride = args.partition_stride;
    for (size_t d = 0; d < args.dims.size(); ++d)
      p.dims[d] = {args.dims[d].first, static_cast<uint32_t>(args.dims[d].second)};
    for (size_t d = 0; d < args.steps.size(); ++d) p.step[d] = args.steps[d];
    uint32_t dynamic = 0;
    if (args.rows)
      dynamic =
          plain_.dynamic(arch::DynamicKind::rows, operands_[static_cast<size_t>(args.rows->first)], args.rows->second);
    operands_.push_back(plain_.tile(args.tensor, p, args.offset, static_cast<int>(args.partition), dynamic));
    return handle;
  }

  uint32_t immediate(double v) {
    operands_.push_back(arch::immediate_operand(v));
    return trace_.immediate(v);
  }

  uint32_t emit(const EmitArgs& args) {
    arch::Draft d(*arch::row_by_name(args.row));
    for (const auto& [slot, handle] : args.operands) d.set(slot, operands_[handle]);
    for (const auto& [name, value] : args.attrs) set_attr(d, name, value);
    arch::EngineMask open = d.info->row->engines;
    if (d.info->row->unit == arch::Unit::queue) open = arch::kGpsimd;
    if (d.info->row->unit == arch::Unit::rendezvous) open = arch::kSync;
    const auto engine = args.engine.empty() ? arch::only_engine(open) : *arch::engine_by_name(args.engine);
    d.waits.push_back({0, arch::WaitOp::ge, 0, emitted_[args.core]++});
    d.updates.push_back({0, arch::UpdateOp::add, 1});
    plain_.emit(plain_.stream(args.core, engine), d);
    return must(trace_.emit(args));
  }

  Trace& trace() { return trace_; }

  // Schedules, runs both, and wants the same outputs without any finding. Returns the scheduled program.
  arch::Program agree() {
    Diagnostic why;
    arch::Program scheduled = must(compile::make_streams(*must(trace_.close()), why));
    const auto a = run(scheduled, chip_, false), b = run(plain_.program(), big_, true);
    REQUIRE(a.outputs.size() == b.outputs.size());
    for (size_t i = 0; i < a.outputs.size(); ++i) CHECK(a.outputs[i].bytes == b.outputs[i].bytes);
    return scheduled;
  }

  template <class T>
  static T must(Result<T> r) {
    const std::string problem = r ? "" : r.error().text();
    REQUIRE(problem == "");
    return *std::move(r);
  }

 private:
  void set_attr(arch::Draft& d, std::string_view name, const AttrValue& value) {
    const arch::AttrSlot& slot = d.info->attrs[static_cast<size_t>(d.info->attr(name))];
    if (const auto* real = std::get_if<double>(&value)) return void(d.set_real(name, *real));
    if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) return void(d.set_attr(name, plain_.list(*list)));
    if (const auto* text = std::get_if<std::string>(&value)) {
      for (size_t i = 0; i < slot.set->members.size(); ++i)
        if (slot.set->members[i] == *text) d.set_attr(name, static_cast<int64_t>(i));
      return;
    }
    d.set_attr(name, std::get<int64_t>(value));
  }

  run::RunResult run(const arch::Program& program, const arch::Chip& chip, bool plain) {
    std::map<std::string, std::vector<std::byte>> bytes;
    run::Inputs inputs;
    uint32_t seed = 1;
    for (const arch::Tensor& t : program.tensors)
      if (t.kind == arch::TensorKind::input) inputs[t.name] = bytes[t.name] = noise(arch::tensor_bytes(t), ++seed);
    run::ExactOptions options;
    options.check_races = !plain;
    auto result = must(run::run_exact(program, chip, inputs, options));
    for (const run::Finding& f : result.findings) FAIL_CHECK(f.text());
    CHECK(result.finished);
    return result;
  }

  arch::Chip chip_, big_;
  Trace trace_;
  arch::Builder plain_;
  std::vector<arch::Operand> operands_;
  std::vector<std::string> names_;
  std::map<int, int64_t> emitted_;
};

}  // namespace trine::front
