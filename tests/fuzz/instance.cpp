// Any bytes as an instance file: refused with a message, or a machine whose wires all lead to its own chips.
#include "arch/instances/instance.h"

#include <cstdint>

#include "comm/topology.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine;
  auto instance = arch::parse_instance({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!instance) {
    CHECK(!instance.error().message.empty(), "an error has text");
    return 0;
  }
  if (instance->chips > 4096) return 0;  // slow, and no other code
  for (int64_t chip : {int64_t{0}, instance->chips / 2, instance->chips - 1}) {
    for (const comm::Neighbour& n : comm::neighbours(*instance, chip))
      CHECK(n.chip >= 0 && n.chip < instance->chips && n.chip != chip, "a wire leaves the machine");
    const auto hops = comm::route(*instance, 0, chip);
    CHECK(chip == 0 ? hops.empty() : hops.back() == chip, "a route ends elsewhere");
  }
  for (const arch::Level& level : instance->levels)
    for (int which = 0; which < comm::ring_count(level); ++which)
      CHECK(static_cast<int64_t>(comm::ring(level, which).size()) == level.size(), "a ring leaves out a place");
  return 0;
}
