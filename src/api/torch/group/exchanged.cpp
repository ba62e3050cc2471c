// A callback of RecordFunction, which runs before each op while it is set; see exchanged.h.
#include "api/torch/aten.h"

#include "api/torch/group/exchanged.h"

#include <ATen/record_function.h>

#include <map>
#include <mutex>
#include <tuple>

#include "api/torch/ask_python.h"
#include "base/format/json.h"
#include "base/text.h"
#include "run/profile/ran.h"

namespace trine::api::neuron {

namespace {

using Key = std::tuple<std::string, std::string, int64_t, int64_t>;  // op, group, bytes, ranks

struct Record {
  std::mutex lock;
  int users = 0;
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
  std::map<Key, int64_t> counts;
};

Record& record() {
  static Record one;
  return one;
}

int64_t bytes_of(const c10::IValue& value) {
  if (value.isTensor()) return value.toTensor().defined() ? static_cast<int64_t>(value.toTensor().nbytes()) : 0;
  if (!value.isList()) return 0;
  int64_t sum = 0;
  for (const c10::IValue& item : value.toListRef()) sum += bytes_of(item);
  return sum;
}

// Numbers in the job of a group's members, as JSON; null where it is of the host's.
Json members_of(const std::string& group) {
  const auto ranks = ranks_of(group);
  if (!ranks) return Json();
  Json out = Json::array();
  for (const int64_t rank : *ranks) out.push(rank);
  return out;
}

// Into the log of runs. Python is asked once a kind, and before the log is locked.
void log(run::RunLog& to, const std::string& op, const std::string& group, int64_t bytes, int64_t ranks) {
  static std::mutex lock;
  static std::map<std::string, std::string> lines;
  const std::string key = cat("collective ", op, " ", group, " ", bytes, " ", ranks);
  std::string line;
  {
    const std::lock_guard held(lock);
    if (const auto found = lines.find(key); found != lines.end()) line = found->second;
  }
  if (line.empty()) {
    line = Json::object()
               .set("collective", op)
               .set("group", group)
               .set("bytes", bytes)
               .set("ranks", ranks)
               .set("members", members_of(group))
               .text();
    const std::lock_guard held(lock);
    lines[key] = line;
  }
  const uint32_t what = to.what(key, [&] { return line; });
  to.add(
      {.begin_ns = run::wall_ns(), .took_ns = 0, .kind = 1, .what = what, .device = 0, .devices = 1, .bytes = bytes});
}

void count(const std::string& op, const std::string& group, int64_t bytes, int64_t ranks) {
  if (run::RunLog* const to = run::RunRecord::process().log()) log(*to, op, group, bytes, ranks);
  Record& r = record();
  const std::lock_guard held(r.lock);
  if (r.users > 0) ++r.counts[{op, group, bytes, ranks}];
}

std::unique_ptr<at::ObserverContext> heard(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  constexpr std::string_view kOps = "c10d::";
  if (name.substr(0, kOps.size()) != kOps) return nullptr;
  int64_t bytes = 0, ranks = 0;
  std::string group;
  for (const c10::IValue& value : function.inputs()) {
    if (value.isCustomClass() && value.type()->str().find("ProcessGroup") != std::string::npos) {
      const auto found = value.toCustomClass<c10d::ProcessGroup>();
      ranks = found->getSize();
      group = found->getGroupName();
    } else {
      bytes = std::max(bytes, bytes_of(value));
    }
  }
  if (ranks > 0) count(std::string(name.substr(kOps.size())), group, bytes, ranks);
  return nullptr;
}

}  // namespace

void exchanged_start() {
  Record& r = record();
  const std::lock_guard held(r.lock);
  if (r.users++ > 0) return;
  r.counts.clear();
  r.callback =
      at::addGlobalCallback(at::RecordFunctionCallback(&heard).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
}

void exchanged_stop() {
  Record& r = record();
  const std::lock_guard held(r.lock);
  if (r.users > 0 && --r.users == 0) at::removeCallback(r.callback);
}

std::vector<Exchanged> exchanged() {
  Record& r = record();
  const std::lock_guard held(r.lock);
  std::vector<Exchanged> out;
  for (const auto& [key, count] : r.counts)
    out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), std::get<3>(key), count});
  return out;
}

}  // namespace trine::api::neuron
