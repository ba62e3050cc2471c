// Any bytes as a program: what parses is compiled and run on memory that ends where the tensors do, twice, and gives
// the same bits both times, unless it asks for chance.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "api/executable.h"
#include "base/stop.h"
#include "run/drivers/native/direct.h"
#include "tests/fuzz/guarded.h"

namespace {

using namespace trine;

constexpr size_t kLongest = 1 << 14;
constexpr int64_t kBytesMax = int64_t{1} << 22;

using Tensors = std::vector<std::unique_ptr<Guarded>>;

Tensors tensors(const arch::HostPlan& plan, const std::vector<arch::SlotId>& slots, uint8_t first) {
  Tensors out;
  for (const arch::SlotId id : slots) {
    out.push_back(std::make_unique<Guarded>(plan.slots[id].bytes()));
    const bool is_truth = plan.slots[id].dtype == Dtype::boolean;
    for (size_t i = 0; i < out.back()->size(); ++i)
      out.back()->data()[i] = std::byte(is_truth ? i % 2 : (first + i * 37) % 64);
  }
  return out;
}

Result<Tensors> outputs_of(const run::DirectProgram& program) {
  const arch::HostPlan& plan = program.plan();
  const Tensors inputs = tensors(plan, plan.inputs, 1);
  Tensors outputs = tensors(plan, plan.outputs, 9);
  std::vector<const void*> from;
  std::vector<void*> to;
  for (const auto& t : inputs) from.push_back(t->data());
  for (const auto& t : outputs) to.push_back(t->data());
  TRY(program.run(from, to, {}));
  return outputs;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_limits({.compile_seconds = 5, .run_seconds = 1, .ops = 4'000});
  if (size > kLongest) return 0;
  const auto made =
      without_throwing([&] { return api::compile(std::string(reinterpret_cast<const char*>(data), size), {}); });
  if (!made) {
    CHECK(!made.error().message.empty(), "an error has text");
    return 0;
  }
  const api::Executable& e = **made;
  if (e.input_bytes() + e.output_bytes() + e.plan->arena_bytes > kBytesMax) return 0;
  const auto direct = run::DirectProgram::make(e.plan);
  if (!direct) return 0;
  const auto once = outputs_of(**direct), again = outputs_of(**direct);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool is_random =
      text.find("stochastic_convert") != std::string_view::npos || text.find("rng") != std::string_view::npos;
  for (size_t i = 0; !is_random && once && again && i < once->size(); ++i)
    CHECK(std::memcmp((*once)[i]->data(), (*again)[i]->data(), (*once)[i]->size()) == 0, "the same bits both times");
  return 0;
}
