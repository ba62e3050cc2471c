// Any bytes as a chip file: refused with a message, or a chip whose every number lies within its row's limits.
#include "arch/chips/chip.h"

#include <cstdint>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine::arch;
  auto chip = parse_chip({reinterpret_cast<const char*>(data), size}, "fuzz.json");
  if (!chip) {
    CHECK(!chip.error().message.empty(), "an error has text");
    return 0;
  }
  for (const NumberRow& row : number_rows()) {
    const double v = read_number(*chip, row);
    CHECK(v >= row.min && v <= row.max, "a number outside its row's limits was let in");
  }
  return 0;
}
