// Any bytes as a page of counters, as times of a program, as a monitor's configuration and as its document: values or
// an error, never an access outside.
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "run/counters/monitor.h"
#include "run/counters/prometheus.h"
#include "run/counters/read.h"
#include "run/counters/times.h"

namespace {

void as_page(const uint8_t* data, size_t size) {
  // Room for a header whose sizes the input decides; what follows is the input again and again.
  constexpr size_t kSize = 1 << 16;
  alignas(64) static std::byte page[kSize];
  for (size_t i = 0; i < kSize; i += std::max<size_t>(size, 1))
    if (size) std::memcpy(page + i, data, std::min(size, kSize - i));
  (void)trine::run::parse_page(page).has_value();
  auto& header = *reinterpret_cast<trine::run::PageHeader*>(page);
  header.magic = trine::run::kPageMagic, header.version = trine::run::kPageVersion;
  header.ready = 1;
  (void)trine::run::parse_page(page).has_value();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  as_page(data, size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto json = trine::parse_json(text, "fuzz");
  if (!json) return 0;
  (void)trine::run::MonitorConfig::parse(*json, "fuzz").has_value();
  (void)trine::run::ProgramTime::parse(*json).has_value();
  trine::run::Exposition exposition;
  exposition.text(*json);
  exposition.text(*json);
  return 0;
}
