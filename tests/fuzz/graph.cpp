// Any bytes as a graph's text: read or refused, and what is read prints and reads back to the same text.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "ir/text.h"
#include "ir/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto graph = trine::ir::parse_graph({reinterpret_cast<const char*>(data), size}, "fuzz");
  if (!graph || !trine::ir::verify(*graph)) return 0;
  const std::string once = trine::ir::text(*graph);
  auto again = trine::ir::parse_graph(once, "again");
  if (!again || trine::ir::text(*again) != once) abort();
  return 0;
}
