// Any bytes as an ONNX model: refused with a message and a location, or a graph that obeys the graph's rules and those
// of its ops. Dims the file leaves open are 2. Any bytes are a tensor's file too.
#include <cstdint>

#include "front/onnx/read.h"
#include "ir/verify.h"
#include "ops/op.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine;
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)front::read_onnx_tensor(bytes);
  front::OnnxOptions options{.name = "fuzz"};
  options.weights_from = size % 2 ? 64 : -1;
  auto summary = front::summarize_onnx(bytes, options);
  if (!summary) {
    CHECK(!summary.error().message.empty() && summary.error().where == "fuzz", "an error has text and place");
    return 0;
  }
  for (const auto& input : summary->inputs)
    for (size_t at = 0; (at = input.type.find_first_of("[,", at)) != std::string::npos; ++at) {
      const size_t end = input.type.find_first_of(",]", at + 1);
      if (end != std::string::npos) options.shapes[input.type.substr(at + 1, end - at - 1)] = {2};
    }
  auto graph = front::read_onnx(bytes, options);
  if (!graph) {
    CHECK(!graph.error().message.empty() && graph.error().where.starts_with("fuzz"), "an error has text and place");
    return 0;
  }
  auto verified = ir::verify(*graph, ops::check);
  if (!verified) std::fprintf(stderr, "%s\n", verified.error().text().c_str());
  CHECK(verified.has_value(), "a graph obeys the rules");
  return 0;
}
