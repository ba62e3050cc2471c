// trine_pjrt.so: the symbol that frameworks look for, and two for the Python package beside it.
#include "api/pjrt/calls.h"
#include "api/pjrt/host_call.h"

extern "C" {

__attribute__((visibility("default"))) const trine::api::pjrt::Api* GetPjrtApi() { return trine::api::pjrt::api(); }

__attribute__((visibility("default"))) void trine_pjrt_set_answer(trine::api::pjrt::Answer answer) {
  trine::api::pjrt::set_answer(answer);
}

__attribute__((visibility("default"))) int trine_pjrt_is_held(uint64_t number) {
  return trine::api::pjrt::is_held(number);
}

}  // extern "C"
