// What devices did, as the XSpace message of TensorFlow's profilers: a plane for each device, on it a line of programs.
#include "api/pjrt/profiler.h"

#include <map>
#include <string>
#include <vector>

#include "api/pjrt/proto.h"
#include "base/text.h"
#include "run/profile/activity.h"

namespace trine::api::pjrt {

struct Profiler {
  std::string space;
};

namespace {

// XPlane: 1 id, 2 name, 3 lines {2 name, 3 start, 4 events {1 kind, 2 offset in ps, 3 duration in ps}}, 4 kinds by id.
std::string plane_of(int device, const std::vector<const run::Activity*>& activities) {
  std::map<std::string_view, uint64_t> kinds;
  const int64_t start_ns = activities.front()->start_ns;
  std::string line, plane;
  put(line, 2, "Programs");
  put(line, 3, uint64_t(start_ns));
  for (const run::Activity* a : activities) {
    std::string event;
    put(event, 1, kinds.emplace(*a->program, kinds.size() + 1).first->second);
    put(event, 2, uint64_t(std::max<int64_t>(0, a->start_ns - start_ns)) * 1000);
    put(event, 3, uint64_t(a->took_ns) * 1000);
    put(line, 4, event);
  }
  put(plane, 1, uint64_t(device));
  put(plane, 2, cat("/device:CUSTOM:neuron:", device));
  put(plane, 3, line);
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
  for (const auto& [device, list] : by_device) put(space, 1, plane_of(device, list));
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
