// Any bytes as a compiled model, as they are and with size and checksums made right. What is accepted has parts that
// agree with each other, and inputs of the graph's types can be prepared for them.
#include <cstdint>
#include <memory>
#include <vector>

#include "arch/program/container.h"
#include "compile/aot/trn.h"

namespace {

using namespace trine;

constexpr int64_t kElementsMax = 1 << 16;

void prepare_all(const compile::Trn& trn) {
  for (const compile::DevicePart& part : trn.made.parts) {
    CHECK(part.on_host == (part.host != nullptr), "a part is the host's or the device's");
    CHECK(part.writes.size() == part.written.size(), "what is written has types");
    for (size_t i = 0; !part.on_host && i < part.reads.size(); ++i) {
      if (part.reads[i] >= trn.graph.params.size()) continue;
      const ir::Type& type = trn.graph.params[part.reads[i]].type();
      if (type.is_token || type.elements() > kElementsMax) continue;
      const Tensor zeros = Tensor::make(type.dtype, type.dims);
      const auto prepared = compile::prepare_input(part.device.inputs[i], zeros.view());
      CHECK(prepared || !prepared.error().message.empty(), "an error has text");
    }
  }
}

void read(std::span<const std::byte> file) {
  const auto trn = compile::parse_trn(file, "fuzz.trn", nullptr);
  if (!trn) {
    CHECK(!trn.error().message.empty(), "an error has text");
    return;
  }
  CHECK(trn->made.inputs == trn->graph.params.size(), "inputs are the graph's parameters");
  CHECK(trn->made.results.size() == trn->graph.results.size(), "results are the graph's");
  prepare_all(*trn);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  read(std::as_bytes(std::span(data, size)));
  std::vector<std::byte> sealed(reinterpret_cast<const std::byte*>(data),
                                reinterpret_cast<const std::byte*>(data) + size);
  if (arch::seal(sealed)) read(sealed);
  return 0;
}
