// Small text helpers: cat() joins anything, nearest() finds what the user meant, the rest formats numbers for people.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trine {

std::string shortest(double v);  // fewest digits that read back to the same double
void append_text(std::string& out, std::string_view s);
void append_text(std::string& out, double v);
void append_signed(std::string& out, int64_t v);
void append_unsigned(std::string& out, uint64_t v);

template <std::integral T>
void append_text(std::string& out, T v) {
  if constexpr (std::same_as<T, bool>) {
    out += v ? "true" : "false";
  } else if constexpr (std::same_as<T, char>) {
    out += v;
  } else if constexpr (std::signed_integral<T>) {
    append_signed(out, v);
  } else {
    append_unsigned(out, v);
  }
}

template <class... A>
std::string cat(const A&... parts) {
  std::string out;
  (append_text(out, parts), ...);
  return out;
}

std::vector<std::string_view> split(std::string_view s, char at);
std::string_view trim(std::string_view s);
std::string lower(std::string_view s);  // ASCII only
std::string join(std::span<const std::string> parts, std::string_view between);

// The up-to-three names closest to `name`, best first: those it begins, then by edit distance.
std::vector<std::string> nearest(std::string_view name, std::span<const std::string> names);

std::string fixed(double v, int digits);    // 3.142
std::string with_unit_ns(double ns);        // 28.1 ms
std::string with_unit_bytes(double bytes);  // 671 MB (decimal), as the profiler prints
std::string with_commas(int64_t v);         // 12,345

// Columns: 0 left, 1 right; widths count code points, so µ and × line up.
std::string columns(const std::vector<std::vector<std::string>>& rows, std::string_view align,
                    std::string_view gap = "  ");
int display_width(std::string_view utf8);

}  // namespace trine
