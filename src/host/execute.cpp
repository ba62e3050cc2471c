// The steps of a plan, one after the other. Each kind of step has one function here or a kernel file of its own.
#include "host/execute.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/text.h"

namespace trine::host {

using arch::HostPlan;
using arch::Slot;
using arch::SlotKind;
using arch::Step;

namespace {

struct Memory {
  std::unique_ptr<std::byte, decltype(&std::free)> bytes{nullptr, std::free};

  Result<std::byte*> take(int64_t size) {
    if (size <= 0) return static_cast<std::byte*>(nullptr);
    bytes.reset(static_cast<std::byte*>(std::aligned_alloc(64, size_t(size + 63) / 64 * 64)));
    if (!bytes) return fail(Code::out_of_memory, cat("this machine has no ", with_unit_bytes(double(size)), " left"));
    return bytes.get();
  }
};

class Run {
 public:
  Run(const HostPlan& plan, const Frame& frame, std::byte* arena) : plan_(plan), frame_(frame), arena_(arena) {}

  Result<void> all() {
    for (const Step& step : plan_.steps) {
      auto done = one(step);
      if (!done) return located(done.error(), step);
    }
    return {};
  }

 private:
  TensorView view(arch::SlotId id) const {
    const Slot& slot = plan_.slots[id];
    void* data = nullptr;
    switch (slot.kind) {
      case SlotKind::input:
        data = const_cast<void*>(frame_.inputs[slot.index]);
        break;
      case SlotKind::output:
        data = frame_.outputs[slot.index];
        break;
      case SlotKind::constant:
        data = plan_.constants[slot.index].data.get();
        break;
      case SlotKind::temporary:
        data = arena_ + slot.offset;
    }
    return {slot.dtype, slot.dims, data};
  }
  std::vector<TensorView> views(const std::vector<arch::SlotId>& ids) const {
    std::vector<TensorView> out;
    out.reserve(ids.size());
    for (arch::SlotId id : ids) out.push_back(view(id));
    return out;
  }
  Error located(Error error, const Step& step) const {
    if (error.where.empty()) error.where = plan_.places[step.where];
    return error;
  }
  Result<void> one(const Step& step) {
    const std::vector<TensorView> in = views(step.in), out = views(step.out);
    return std::visit([&](const auto& what) { return run(what, in, out); }, step.what);
  }

  Result<void> run(const arch::CallStep& call, std::span<const TensorView> in, std::span<const TensorView> out) {
    return call.run(in, out);
  }
  Result<void> run(const arch::CopyStep&, std::span<const TensorView> in, std::span<const TensorView> out) {
    if (in[0].data != out[0].data) std::memcpy(out[0].data, in[0].data, in[0].bytes());
    return {};
  }
  Result<void> run(const arch::WhileStep& loop, std::span<const TensorView> in, std::span<const TensorView> out);
  Result<void> run(const arch::CaseStep& choice, std::span<const TensorView> in, std::span<const TensorView> out) {
    const size_t last = choice.branches.size() - 1;
    const int32_t index = *in[0].as<const int32_t>();
    const HostPlan& branch = *choice.branches[index < 0 || size_t(index) > last ? last : size_t(index)];
    std::vector<const void*> inputs;
    for (const TensorView& v : in.subspan(1)) inputs.push_back(v.data);
    std::vector<void*> outputs;
    for (const TensorView& v : out) outputs.push_back(v.data);
    return execute(branch, {inputs, outputs, frame_.meeting});
  }
  Result<void> run(const arch::CollectiveStep& step, std::span<const TensorView> in, std::span<const TensorView> out) {
    if (frame_.meeting) return frame_.meeting->meet(step, in, out);
    for (size_t i = 0; i < out.size(); ++i) {
      if (i < in.size() && in[i].bytes() == out[i].bytes()) {
        std::memcpy(out[i].data, in[i].data, in[i].bytes());
      } else if (in.empty()) {
        std::memset(out[i].data, 0, out[i].bytes());  // partition_id and replica_id of a lone device
      } else {
        return fail(Code::invalid, "a collective of several devices in a program that runs on one");
      }
    }
    return {};
  }

  const HostPlan& plan_;
  const Frame& frame_;
  std::byte* arena_;
};

// Carried values live in the outputs and in a second set of the same size; turns go from one to the other.
Result<void> Run::run(const arch::WhileStep& loop, std::span<const TensorView> in, std::span<const TensorView> out) {
  const size_t carried = loop.carried;
  Memory second, cond_arena, body_arena;
  int64_t size = 0;
  std::vector<int64_t> offsets;
  for (const TensorView& v : out) {
    offsets.push_back(size);
    size += int64_t(v.bytes() + 63) / 64 * 64;
  }
  std::byte* spare = TRY(second.take(size));
  std::byte* cond_bytes = TRY(cond_arena.take(loop.cond->arena_bytes));
  std::byte* body_bytes = TRY(body_arena.take(loop.body->arena_bytes));
  std::vector<const void*> inputs;
  for (const TensorView& v : in) inputs.push_back(v.data);
  std::vector<void*> sets[2];
  for (size_t i = 0; i < carried; ++i) {
    sets[0].push_back(out[i].data);
    sets[1].push_back(spare + offsets[i]);
  }
  uint8_t go = 0;
  void* go_at[] = {&go};
  int turn = 0;
  const Frame asking{inputs, go_at, frame_.meeting};
  while (true) {
    TRY(Run(*loop.cond, asking, cond_bytes).all());
    if (!go) break;
    const Frame turning{inputs, sets[turn], frame_.meeting};
    TRY(Run(*loop.body, turning, body_bytes).all());
    std::copy(sets[turn].begin(), sets[turn].end(), inputs.begin());
    turn ^= 1;
  }
  for (size_t i = 0; i < carried; ++i)
    if (inputs[i] != out[i].data) std::memcpy(out[i].data, inputs[i], out[i].bytes());
  return {};
}

}  // namespace

Result<void> execute(const HostPlan& plan, const Frame& frame) {
  Memory arena;
  return Run(plan, frame, TRY(arena.take(plan.arena_bytes))).all();
}

}  // namespace trine::host
