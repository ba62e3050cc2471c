// What semaphores hold over time; see program_profile.h. An engine's update is seen a semaphore's latency after its
// result, a transfer's with its completion, as the timer has it (sim/core/timer.cpp).
#include <algorithm>
#include <cmath>
#include <tuple>

#include "run/profile/program_profile.h"

namespace trine::run {

namespace {

struct Change {
  uint16_t core, semaphore;
  sim::Fs at;
  size_t order;  // of the event, where two are seen at once
  const arch::Update* update;
  uint32_t event;

  auto key() const { return std::tie(core, semaphore, at, order); }
};

int64_t after(int64_t value, const arch::Update& u) {
  switch (u.op) {
    case arch::UpdateOp::set:
      return u.value;
    case arch::UpdateOp::subtract:
      return value - u.value;
    case arch::UpdateOp::add:
      break;
  }
  return value + u.value;
}

}  // namespace

std::vector<ProfileSemaphore> semaphore_rows(const arch::Program& program, const arch::Chip& chip,
                                             const sim::Timing& timing, const std::vector<uint32_t>& place) {
  const sim::Fs latency = std::llround(chip.semaphore.latency_ns * sim::kFsPerNs);
  std::vector<Change> changes;
  for (size_t i = 0; i < timing.events.size(); ++i) {
    const sim::Event& e = timing.events[i];
    const arch::Insn& insn = program.streams[e.stream].insns[e.insn];
    const bool is_transfer = e.part == sim::Part::dma;
    // Of a transfer its execution raises semaphores, not its issue; a table's load comes before what it is for.
    if (e.doing != sim::Doing::execute) continue;
    for (uint32_t u = 0; u < insn.updates; ++u) {
      const arch::Update& update = program.updates[insn.update + u];
      changes.push_back({e.core, update.semaphore, e.done + (is_transfer ? 0 : latency), i, &update, place[i]});
    }
  }
  std::sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.key() < b.key(); });
  std::vector<ProfileSemaphore> out;
  out.reserve(changes.size());
  int64_t value = 0;
  for (size_t i = 0; i < changes.size(); ++i) {
    const Change& c = changes[i];
    if (i == 0 || c.core != changes[i - 1].core || c.semaphore != changes[i - 1].semaphore) value = 0;
    value = after(value, *c.update);
    out.push_back({.at = c.at / 1000,  // ps
                   .value = int32_t(std::clamp<int64_t>(value, INT32_MIN, INT32_MAX)),
                   .event = c.event,
                   .core = c.core,
                   .semaphore = c.semaphore,
                   .reserved = 0});
  }
  return out;
}

}  // namespace trine::run
