// Any bytes as an entry of the compile cache, and as what an entry holds: refused with a message, or what was stored.
#include <cstdint>
#include <memory>

#include "compile/aot/artifact.h"
#include "compile/cache/entry.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)compile::about_entry(bytes);
  const auto entry = compile::read_entry(bytes, "");
  CHECK(entry || !entry.error().message.empty(), "an error has text");
  if (entry) CHECK(compile::write_entry(entry->key, entry->bytes) == bytes, "an entry is what it says");
  CHECK(!compile::read_entry(bytes, "", "a key"), "nobody signed it");
  // What lies behind the head, or all of it.
  const size_t head = bytes.find('\n', bytes.find('\n', bytes.find('\n') + 1) + 1);
  const std::string_view body = head == std::string_view::npos ? bytes : bytes.substr(head + 1);
  const auto read = compile::parse_artifact(std::as_bytes(std::span(body)), "fuzz", nullptr);
  CHECK(read || !read.error().message.empty(), "an error has text");
  return 0;
}
