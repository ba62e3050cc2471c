// The steps of a prepared plan, one after the other. Each kind of step has one function here or a kernel file.
#include "host/execute.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "base/text.h"
#include "host/dot.h"
#include "host/move.h"
#include "host/prepared.h"

namespace trine::host {

using arch::HostPlan;
using arch::SlotKind;

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
  Run(const Prepared& prepared, const Frame& frame, std::byte* arena)
      : prepared_(prepared), frame_(frame), arena_(arena) {}

  Result<void> all() {
    for (const PreparedStep& step : prepared_.steps) {
      auto done = std::visit([&](const auto& what) { return run(what, step); }, step.what);
      if (!done) return located(done.error(), step);
    }
    return {};
  }

 private:
  void* data(const Place& place) const {
    switch (place.kind) {
      case SlotKind::input:
        return const_cast<void*>(frame_.inputs[place.index]);
      case SlotKind::output:
        return frame_.outputs[place.index];
      case SlotKind::constant:
        return place.constant;
      case SlotKind::temporary:
        return arena_ + place.offset;
    }
    return nullptr;
  }
  std::vector<TensorView> views(const std::vector<Place>& places) const {
    std::vector<TensorView> out;
    out.reserve(places.size());
    for (const Place& p : places) out.push_back({p.slot->dtype, p.slot->dims, data(p)});
    return out;
  }
  std::vector<void*> pointers(std::span<const Place> places) const {
    std::vector<void*> out;
    out.reserve(places.size());
    for (const Place& p : places) out.push_back(data(p));
    return out;
  }
  Error located(Error error, const PreparedStep& step) const {
    if (error.where.empty()) error.where = prepared_.plan->places[step.where];
    return error;
  }

  Result<void> run(const arch::CallStep* call, const PreparedStep& step) {
    return call->run(views(step.in), views(step.out));
  }
  Result<void> run(const TileKernel& kernel, const PreparedStep& step) {
    std::array<void*, 32> few;
    const size_t count = step.in.size() + step.out.size();
    std::vector<void*> many(count > few.size() ? count : 0);
    std::span<void*> operands = many.empty() ? std::span(few).first(count) : std::span(many);
    for (size_t i = 0; i < step.in.size(); ++i) operands[i] = data(step.in[i]);
    for (size_t i = 0; i < step.out.size(); ++i) operands[step.in.size() + i] = data(step.out[i]);
    host::run(kernel, operands);
    return {};
  }
  Result<void> run(const arch::GemmStep* gemm, const PreparedStep& step) {
    return run_dot(*gemm, views(step.in), views(step.out));
  }
  Result<void> run(const arch::MoveStep* move, const PreparedStep& step) {
    run_move(*move, views(step.in), views(step.out));
    return {};
  }
  Result<void> run(const arch::CopyStep&, const PreparedStep& step) {
    void *from = data(step.in[0]), *to = data(step.out[0]);
    if (from != to) std::memcpy(to, from, step.in[0].slot->bytes());
    return {};
  }
  Result<void> run(const PreparedLoop& loop, const PreparedStep& step);
  Result<void> run(const PreparedCase& choice, const PreparedStep& step) {
    const size_t last = choice.branches.size() - 1;
    const int32_t index = *static_cast<const int32_t*>(data(step.in[0]));
    const Prepared& branch = *choice.branches[index < 0 || size_t(index) > last ? last : size_t(index)];
    const std::vector<void*> inputs = pointers(std::span(step.in).subspan(1)), outputs = pointers(step.out);
    const std::vector<const void*> read(inputs.begin(), inputs.end());
    return execute(branch, {read, outputs, frame_.meeting});
  }
  Result<void> run(const arch::CollectiveStep* what, const PreparedStep& step) {
    const std::vector<TensorView> in = views(step.in), out = views(step.out);
    if (frame_.meeting) return frame_.meeting->meet(*what, in, out);
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

  const Prepared& prepared_;
  const Frame& frame_;
  std::byte* arena_;
};

// Carried values live in the outputs and in a second set; turns go from one to the other. Those that the body writes
// in place have one home, the output, from the start.
Result<void> Run::run(const PreparedLoop& loop, const PreparedStep& step) {
  Memory second, cond_arena, body_arena;
  int64_t size = 0;
  std::vector<int64_t> offsets;
  for (size_t i = 0; i < step.out.size(); ++i) {
    offsets.push_back(size);
    if (!loop.in_place[i]) size += int64_t(step.out[i].slot->bytes() + 63) / 64 * 64;
  }
  std::byte* spare = TRY(second.take(size));
  std::byte* cond_bytes = TRY(cond_arena.take(loop.cond->plan->arena_bytes));
  std::byte* body_bytes = TRY(body_arena.take(loop.body->plan->arena_bytes));
  const std::vector<void*> given = pointers(step.in);
  std::vector<const void*> inputs(given.begin(), given.end());
  std::vector<void*> sets[2] = {pointers(step.out), {}};
  for (size_t i = 0; i < step.out.size(); ++i) {
    sets[1].push_back(loop.in_place[i] ? sets[0][i] : spare + offsets[i]);
    if (!loop.in_place[i]) continue;
    if (inputs[i] != sets[0][i]) std::memcpy(sets[0][i], inputs[i], step.out[i].slot->bytes());
    inputs[i] = sets[0][i];
  }
  uint8_t go = 0;
  void* go_at[] = {&go};
  int turn = 0;
  const Frame asking{inputs, go_at, frame_.meeting};
  while (true) {
    TRY(Run(*loop.cond, asking, cond_bytes).all());
    if (!go) break;
    TRY(Run(*loop.body, {inputs, sets[turn], frame_.meeting}, body_bytes).all());
    std::copy(sets[turn].begin(), sets[turn].end(), inputs.begin());
    turn ^= 1;
  }
  for (size_t i = 0; i < step.out.size(); ++i)
    if (inputs[i] != sets[0][i]) std::memcpy(sets[0][i], inputs[i], step.out[i].slot->bytes());
  return {};
}

}  // namespace

Result<void> execute(const Prepared& prepared, const Frame& frame) {
  Memory arena;
  return Run(prepared, frame, TRY(arena.take(prepared.plan->arena_bytes))).all();
}

}  // namespace trine::host
