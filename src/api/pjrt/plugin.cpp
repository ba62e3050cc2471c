// trine_pjrt.so: the symbol that frameworks look for, and some for the Python package beside it.
#include "api/executable.h"
#include "api/pjrt/calls.h"
#include "api/pjrt/host_call.h"
#include "api/recording.h"
#include "base/stop.h"
#include "run/profile/ran.h"

extern "C" {

__attribute__((visibility("default"))) const trine::api::pjrt::Api* GetPjrtApi() { return trine::api::pjrt::api(); }

__attribute__((visibility("default"))) void trine_pjrt_set_answer(trine::api::pjrt::Answer answer) {
  trine::api::pjrt::set_answer(answer);
}

__attribute__((visibility("default"))) int trine_pjrt_is_held(uint64_t number) {
  return trine::api::pjrt::is_held(number);
}

// Ctrl-C stops what runs; where Python's own handler is in charge.
__attribute__((visibility("default"))) void trine_pjrt_take_interrupts() { trine::take_interrupts(); }

// Gives a saved executable as text, or why not.
__attribute__((visibility("default"))) int trine_pjrt_text(const char* saved, size_t size,
                                                           void (*give)(const char* text, size_t size)) {
  const auto text = trine::without_throwing([&] { return trine::api::saved_as_hlo({saved, size}); });
  const std::string& message = text ? *text : text.error().text();
  give(message.data(), message.size());
  return text ? 0 : 1;
}

__attribute__((visibility("default"))) void trine_pjrt_ran_start() { trine::run::RunRecord::process().start(); }
__attribute__((visibility("default"))) void trine_pjrt_ran_stop() { trine::run::RunRecord::process().stop(); }

__attribute__((visibility("default"))) void trine_pjrt_log_start(const char* folder) {
  trine::api::record_runs(folder, "jax");
}
__attribute__((visibility("default"))) void trine_pjrt_log_stop() { trine::api::stop_recording(); }

// Gives each program that ran since ran_start: name, source, runs, devices.
__attribute__((visibility("default"))) void trine_pjrt_ran(void (*give)(const char* name, const char* source,
                                                                        size_t size, int64_t runs, int64_t devices)) {
  for (const trine::run::Ran& r : trine::run::RunRecord::process().all())
    give(r.source->name.c_str(), r.source->artifact.data(), r.source->artifact.size(), r.runs, r.devices);
}

}  // extern "C"
