// Any bytes as a .npy file: an array whose bytes fit its shape, or an error. What was read is written and read again.
#include "base/format/npy.h"

#include <cstddef>
#include <cstdint>

#include "base/result.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  for (const trine::Dtype dtype : {trine::Dtype::f32, trine::Dtype::bf16, trine::Dtype::boolean}) {
    const auto array = trine::parse_npy(file, dtype, "fuzz");
    if (!array) continue;
    const auto again = trine::parse_npy(trine::npy_text(dtype, array->shape, array->bytes), dtype, "again");
    CHECK(again && again->shape == array->shape && again->bytes == array->bytes, "what is written reads back");
  }
  return 0;
}
