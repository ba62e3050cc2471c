// Any bytes into the JSON parser: it answers with a value or an error with a position, and what it
// accepts prints and reads back equal, both compact and indented.
#include "base/format/json.h"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto read = trine::parse_json({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!read) {
    CHECK(!read.error().message.empty() && read.error().where.starts_with("fuzz.json:"), "an error has text and place");
    return 0;
  }
  for (int indent : {0, 2}) {
    auto again = trine::parse_json(read->text(indent));
    CHECK(again && *again == *read, "print and parse give the value back");
  }
  return 0;
}
