// trine_pjrt.so: the one symbol that a framework looks for.
#include "api/pjrt/calls.h"

extern "C" __attribute__((visibility("default"))) const trine::api::pjrt::Api* GetPjrtApi() {
  return trine::api::pjrt::api();
}
