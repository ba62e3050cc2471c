// Any bytes as a saved executable, as they are and with the checksum made right: refused with a message, or an
// executable whose own saved form loads.
#include "api/executable.h"

#include <cstdint>

#include "base/stop.h"

namespace {

using namespace trine;

void load(std::string_view bytes) {
  const auto loaded = without_throwing([&] { return api::load(bytes); });
  if (!loaded) {
    CHECK(!loaded.error().message.empty(), "an error has text");
    return;
  }
  const std::string saved = api::save(*loaded->executable, loaded->extra);
  CHECK(without_throwing([&] { return api::load(saved); }).has_value(), "what was loaded is saved and loaded");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  set_limits({.compile_seconds = 5, .run_seconds = 1, .ops = 10'000});
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  load(bytes);
  // Past the magic and the checksum, whose lines they are.
  const size_t first = bytes.find('\n'), second = bytes.find('\n', first + 1);
  if (first != std::string_view::npos && second != std::string_view::npos) load(api::sealed(bytes.substr(second + 1)));
  return 0;
}
