// Any bytes as a profile: refused with a message, or a timeline whose every track can be looked at in any window, and
// whose events have numbers that lead back to them.
#include <cstdint>
#include <cstring>
#include <vector>

#include "run/profile/window.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace trine;
  std::vector<uint64_t> aligned((size + 7) / 8);
  if (size) std::memcpy(aligned.data(), data, size);
  const auto file = run::ProfileFile::read(std::as_bytes(std::span(aligned)).subspan(0, size), "fuzz");
  if (!file) {
    CHECK(!file.error().message.empty() && file.error().where.starts_with("fuzz"), "an error has text and where");
    return 0;
  }
  const run::ProfileView view(*file);
  volatile size_t sum = 0;
  for (uint32_t i = 0; i < (*file)->name_count(); ++i) sum = sum + (*file)->name(i).size();
  for (size_t t = 0; t < std::min<size_t>(view.tracks().size(), 64); ++t)
    for (const int64_t columns : {1, 7, 4000}) {
      for (const run::WindowRow& row : view.window(t, 0, view.end_ps() / 1000 + 1, columns)) {
        CHECK(row.count > 0, "a row is of something");
        if (row.event >= 0) CHECK(view.has(run::EventNumber::of(row.event)), "an event is there");
      }
      sum = sum + view.window(t, view.end_ps() / 3000, view.end_ps() / 2000, columns).size();
    }
  return 0;
}
