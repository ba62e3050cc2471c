// Limits by their variables; see limits.h.
#include "api/limits.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "base/text.h"

namespace trine::api {

namespace {

template <class Number>
Result<void> read(const char* name, Number& to) {
  const char* const given = std::getenv(name);
  if (!given || !*given) return {};
  const std::string_view text = given;
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= 0))
    return fail(Code::invalid, cat(name, " is `", text, "`; expected a number, 0 for no limit"));
  to = value;
  return {};
}

}  // namespace

Result<void> set_limits_from_environment() {
  Limits out;
  TRY(read("TRINE_COMPILE_SECONDS", out.compile_seconds));
  TRY(read("TRINE_RUN_SECONDS", out.run_seconds));
  TRY(read("TRINE_OPS", out.ops));
  TRY(read("TRINE_HOST_BYTES", out.host_bytes));
  set_limits(out);
  return {};
}

}  // namespace trine::api
