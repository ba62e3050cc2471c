// Tensors in and out as plain structs; errors as text.
#include "api/pjrt/host_call.h"

#include <array>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "base/text.h"

namespace trine::api::pjrt {

namespace {

constexpr std::chrono::seconds kLastWait{10};  // for calls that run when no more are wanted

// The plugin is loaded once in a process and serves one interpreter.
struct Answers {
  std::mutex mutex;
  std::condition_variable changed;
  Answer answer = nullptr;
  int running = 0;
};
Answers& answers() {
  static Answers* const kAnswers = new Answers;  // outlives every call
  return *kAnswers;
}

// One call of the interpreter, if there is one to call.
struct Asking {
  Asking() {
    const std::lock_guard lock(answers().mutex);
    answer = answers().answer;
    answers().running += answer != nullptr;
  }
  ~Asking() {
    if (!answer) return;
    const std::lock_guard lock(answers().mutex);
    --answers().running;
    answers().changed.notify_all();
  }
  Asking(const Asking&) = delete;
  Asking& operator=(const Asking&) = delete;
  Answer answer = nullptr;
};

struct Counts {
  std::mutex mutex;
  std::unordered_map<uint64_t, int> plans;
};
Counts& counts() {
  static Counts* const kCounts = new Counts;  // outlives every plan
  return *kCounts;
}

struct Held {
  explicit Held(uint64_t n) : number(n) {
    const std::lock_guard lock(counts().mutex);
    ++counts().plans[number];
  }
  ~Held() {
    const std::lock_guard lock(counts().mutex);
    if (--counts().plans[number] == 0) counts().plans.erase(number);
  }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  const uint64_t number;
};

std::vector<HostTensor> host_tensors(std::span<const TensorView> views) {
  std::vector<HostTensor> out;
  for (const TensorView& v : views)
    out.push_back({row(v.dtype).abroad.numpy.data(), v.dims.data(), v.dims.size(), v.data});
  return out;
}

Result<void> call(uint64_t number, std::span<const TensorView> in, std::span<const TensorView> out) {
  const Asking asking;
  if (!asking.answer) return fail(Code::cancelled, "a host function was called when its process was ending");
  const auto inputs = host_tensors(in), outputs = host_tensors(out);
  std::array<char, 4096> message = {};
  if (asking.answer(number, inputs.data(), inputs.size(), outputs.data(), outputs.size(), message.data(),
                    message.size()))
    return fail(Code::internal, message.data());
  return {};
}

}  // namespace

void set_answer(Answer answer) {
  std::unique_lock lock(answers().mutex);
  answers().answer = answer;
  if (!answer) answers().changed.wait_for(lock, kLastWait, [] { return answers().running == 0; });
}

bool is_held(uint64_t number) {
  const std::lock_guard lock(counts().mutex);
  return counts().plans.contains(number);
}

Result<compile::HostFunction> host_function(std::string_view config) {
  uint64_t number = 0;
  if (config.ends_with(compile::kPartsCall)) config.remove_suffix(compile::kPartsCall.size());
  const auto read = std::from_chars(config.data(), config.data() + config.size(), number);
  if (read.ec != std::errc{} || read.ptr != config.data() + config.size())
    return fail(Code::invalid, cat("a call of the host function \"", config, "\"; expected a number"));
  return compile::HostFunction(
      [held = std::make_shared<Held>(number)](auto in, auto out) { return call(held->number, in, out); });
}

}  // namespace trine::api::pjrt
