// What devices did, as the XSpace message of TensorFlow's profilers: a plane for each device, on it a line of programs,
// each as long as it takes on the chip, and a line of its parts for each engine.
#include "api/pjrt/profiler.h"

#include <map>
#include <string>
#include <vector>

#include "api/chip_time.h"
#include "api/pjrt/proto.h"
#include "base/text.h"
#include "run/profile/activity.h"

namespace trine::api::pjrt {

struct Profiler {
  std::string space;
};

namespace {

// XPlane: 1 id, 2 name, 3 lines {2 name, 3 start, 4 events {1 kind, 2 offset in ps, 3 duration in ps}}, 4 kinds by id.
std::string plane_of(int device, const std::vector<const run::Activity*>& activities, ChipTimes& times) {
  std::map<std::string_view, uint64_t> kinds;
  const int64_t start_ns = activities.front()->start_ns;
  std::string line, plane;
  put(line, 2, "Programs");
  put(line, 3, uint64_t(start_ns));
  std::map<std::string_view, std::string> engines;
  int64_t free_ps = 0;  // a program begins when the one before it is over
  const auto add = [&](std::string& to, std::string_view name, int64_t begin_ps, int64_t took_ps) {
    std::string event;
    put(event, 1, kinds.emplace(name, kinds.size() + 1).first->second);
    put(event, 2, uint64_t(begin_ps));
    put(event, 3, uint64_t(took_ps));
    put(to, 4, event);
  };
  for (const run::Activity* a : activities) {
    const ChipTime* const chip = a->source ? times.of(*a->source) : nullptr;
    const int64_t begin_ps = std::max(free_ps, std::max<int64_t>(0, a->start_ns - start_ns) * 1000);
    const int64_t took_ps = chip ? chip->ps : a->took_ns * 1000;
    add(line, *a->program, begin_ps, took_ps);
    free_ps = begin_ps + took_ps;
    if (chip)
      for (const ChipSlice& s : chip->slices)
        add(engines[s.unit], s.name, begin_ps + s.begin_ps, s.end_ps - s.begin_ps);
  }
  put(plane, 1, uint64_t(device));
  put(plane, 2, cat("/device:CUSTOM:neuron:", device));
  put(plane, 3, line);
  for (const auto& [unit, events] : engines) {
    std::string unit_line;
    put(unit_line, 2, unit);
    put(unit_line, 3, uint64_t(start_ns));
    put(plane, 3, unit_line + events);
  }
  for (const auto& [name, id] : kinds) {
    std::string kind, entry;
    put(kind, 1, id);
    put(kind, 2, name);
    put(entry, 1, id);
    put(entry, 2, kind);
    put(plane, 4, entry);
  }
  return plane;
}

std::string space_of(const std::vector<run::Activity>& activities) {
  std::map<int, std::vector<const run::Activity*>> by_device;
  for (const run::Activity& a : activities) by_device[a.device].push_back(&a);
  std::string space;
  ChipTimes times;
  for (const auto& [device, list] : by_device) put(space, 1, plane_of(device, list, times));
  return space;
}

// None of these can fail, so nobody asks for an error.
ProfilerApi the_api = {
    .struct_size = sizeof(ProfilerApi),
    .priv = nullptr,
    .error_destroy = [](ProfilerErrorArgs*) {},
    .error_message =
        [](ProfilerErrorArgs* args) {
          args->message = "";
          args->message_size = 0;
        },
    .error_get_code = [](ProfilerErrorArgs*) -> void* { return nullptr; },
    .create = [](ProfilerCreateArgs* args) -> void* {
      args->profiler = new Profiler;
      return nullptr;
    },
    .destroy = [](ProfilerArgs* args) -> void* {
      delete args->profiler;
      return nullptr;
    },
    .start = [](ProfilerArgs*) -> void* {
      run::ActivityRecord::process().start();
      return nullptr;
    },
    .stop = [](ProfilerArgs* args) -> void* {
      args->profiler->space = space_of(run::ActivityRecord::process().stop());
      return nullptr;
    },
    .collect_data = [](ProfilerCollectDataArgs* args) -> void* {
      args->buffer = reinterpret_cast<uint8_t*>(args->profiler->space.data());
      args->buffer_size_in_bytes = args->profiler->space.size();
      return nullptr;
    },
};

}  // namespace

ProfilerExtension* profiler_extension() {
  constexpr int kProfiler = 1;
  static ProfilerExtension extension{{sizeof(ProfilerExtension), kProfiler, nullptr}, &the_api, 0};
  return &extension;
}

}  // namespace trine::api::pjrt
