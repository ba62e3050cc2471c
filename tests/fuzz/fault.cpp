// Any text as injected faults: rows that read back, or an error; any JSON as a core dump for people.
#include <cstddef>
#include <cstdint>

#include "run/faults/dump.h"
#include "run/faults/fault.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto faults = trine::run::parse_faults(text)) {
    const auto again = trine::run::parse_faults(trine::run::time_faults(*faults));
    CHECK(again && again->size() <= faults->size(), "faults of time read back");
  }
  if (const auto json = trine::parse_json(text, "fuzz")) (void)trine::run::dump_text(*json).has_value();
  return 0;
}
