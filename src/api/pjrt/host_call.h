// Host functions of the Python program (JAX's callbacks): one function pointer, which the Python package sets, is asked
// for all of them by number. Plans hold the numbers they call, so that the package knows which functions may go.
#pragma once

#include <cstddef>
#include <cstdint>

#include "compile/host/native.h"

namespace trine::api::pjrt {

struct HostTensor {
  const char* dtype;  // NumPy's name
  const int64_t* dims;
  size_t rank;
  void* data;
};

// Gives 0, or writes why not into `message`.
using Answer = int (*)(uint64_t number, const HostTensor* in, size_t in_count, const HostTensor* out, size_t out_count,
                       char* message, size_t message_bytes);

// Null when the interpreter is about to end: calls that run are waited for, then there are none.
void set_answer(Answer answer);
bool is_held(uint64_t number);
Result<compile::HostFunction> host_function(std::string_view config);  // a compile::FindHostFunction

}  // namespace trine::api::pjrt
