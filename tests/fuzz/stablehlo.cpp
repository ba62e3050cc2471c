// Any bytes as a StableHLO module, bytecode or text: refused with a message and a location, or a module whose text
// reads back to the same module, locations included, and whose graph, if it has one, obeys the graph's rules.
#include <cstdint>

#include "front/stablehlo/graph/graph.h"
#include "front/stablehlo/print/print.h"
#include "front/stablehlo/read.h"
#include "ir/verify.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine::front::stablehlo;
  auto module = read_module(std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  if (!module) {
    CHECK(!module.error().message.empty() && module.error().where.starts_with("fuzz"), "an error has text and place");
    return 0;
  }
  auto graph = to_graph(*module);
  if (graph) {
    auto verified = trine::ir::verify(*graph);
    if (!verified) std::fprintf(stderr, "%s\n", verified.error().text().c_str());
    CHECK(verified.has_value(), "a graph obeys the rules");
  } else {
    CHECK(!graph.error().message.empty(), "an error has text");
  }
  // Attributes are shared: a small file can have a very long text.
  auto text = print(*module, {.locations = true, .bytes_max = 1 << 20});
  if (!text) return 0;
  auto again = read_module(*text, "printed");
  if (!again) std::fprintf(stderr, "%s\n%s\n", again.error().text().c_str(), text->c_str());
  CHECK(again.has_value(), "what is printed can be read");
  const std::string found = difference(*module, *again, true);
  if (!found.empty()) std::fprintf(stderr, "%s\n%s\n", found.c_str(), text->c_str());
  CHECK(found.empty(), "what is printed reads back the same");
  return 0;
}
