// The profiler extension of the PJRT C API: declarations as its header has them, and our one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "api/pjrt/abi.h"

namespace trine::api::pjrt {

struct Profiler;

struct ProfilerErrorArgs {
  size_t struct_size;
  void* priv;
  void* error;
  const char* message;
  size_t message_size;
};

struct ProfilerCreateArgs {
  size_t struct_size;
  const char* options;
  size_t options_size;
  Profiler* profiler;
};

struct ProfilerArgs {  // of destroy, start and stop
  size_t struct_size;
  Profiler* profiler;
};

struct ProfilerCollectDataArgs {
  size_t struct_size;
  Profiler* profiler;
  uint8_t* buffer;
  size_t buffer_size_in_bytes;
};

struct ProfilerApi {
  size_t struct_size;
  void* priv;
  void (*error_destroy)(ProfilerErrorArgs*);
  void (*error_message)(ProfilerErrorArgs*);
  void* (*error_get_code)(ProfilerErrorArgs*);
  void* (*create)(ProfilerCreateArgs*);
  void* (*destroy)(ProfilerArgs*);
  void* (*start)(ProfilerArgs*);
  void* (*stop)(ProfilerArgs*);
  void* (*collect_data)(ProfilerCollectDataArgs*);
};

struct ProfilerExtension : Extension {
  ProfilerApi* profiler_api;
  int64_t traceme_context_id;
};

ProfilerExtension* profiler_extension();

}  // namespace trine::api::pjrt
