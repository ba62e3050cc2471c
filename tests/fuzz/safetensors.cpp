// Any bytes as a safetensors file: refused with a message, or tensors that lie within the file, each byte of which can
// be read; what is read writes and reads back to the same.
#include "base/format/safetensors.h"

#include <cstdint>
#include <cstring>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine;
  const auto file = std::as_bytes(std::span(data, size));
  const auto read = read_safetensors(file, "fuzz");
  if (!read) {
    CHECK(!read.error().message.empty() && read.error().where.starts_with("fuzz"), "an error has text and place");
    return 0;
  }
  volatile unsigned sum = 0;
  for (const NamedTensor& t : *read)
    for (size_t i = 0; i < t.tensor.bytes(); ++i) sum = sum + t.tensor.as<const uint8_t>()[i];
  const auto written = write_safetensors(*read);
  CHECK(written.has_value(), "what was read has a format");
  const auto again = read_safetensors(std::as_bytes(std::span(written->data(), written->size())), "again");
  CHECK(again && again->size() == read->size(), "what is written reads back");
  return 0;
}
