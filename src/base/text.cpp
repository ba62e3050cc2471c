// Text helpers; see text.h. Nothing here allocates more than its result.
#include "base/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trine {

namespace {

template <class T>
void append_whole(std::string& out, T v) {
  char buffer[24];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}

}  // namespace

std::string shortest(double v) {
  char buffer[40];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, v).ptr;
  return std::string(buffer, end);
}

void append_text(std::string& out, std::string_view s) { out += s; }
void append_text(std::string& out, double v) {
  char buffer[40];
  out.append(buffer, std::to_chars(buffer, buffer + sizeof buffer, v).ptr);
}
void append_signed(std::string& out, int64_t v) { append_whole(out, v); }
void append_unsigned(std::string& out, uint64_t v) { append_whole(out, v); }

std::vector<std::string_view> split(std::string_view s, char at) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t i = 0; i <= s.size(); ++i) {
    if (i == s.size() || s[i] == at) {
      parts.push_back(s.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  return parts;
}

std::string_view trim(std::string_view s) {
  const auto first = s.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return {};
  return s.substr(first, s.find_last_not_of(" \t\r\n") - first + 1);
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

std::string join(std::span<const std::string> parts, std::string_view between) {
  std::string out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i) out += between;
    out += parts[i];
  }
  return out;
}

static int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    int diagonal = row[0];
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const int next = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = row[j];
      row[j] = next;
    }
  }
  return row[b.size()];
}

std::vector<std::string> nearest(std::string_view name, std::span<const std::string> names) {
  name = name.substr(0, 256);
  std::vector<std::pair<int, std::string>> scored;
  for (const auto& n : names) scored.emplace_back(!name.empty() && n.starts_with(name) ? 0 : edit_distance(name, n), n);
  std::stable_sort(scored.begin(), scored.end(), [](auto& a, auto& b) { return a.first < b.first; });
  std::vector<std::string> out;
  for (size_t i = 0; i < scored.size() && i < 3; ++i) out.push_back(scored[i].second);
  return out;
}

std::string fixed(double v, int digits) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, "%.*f", digits, v);
  return buffer;
}

static std::string three_digits(double v) {
  const double m = std::fabs(v);
  return fixed(v, m >= 99.95 || m == 0 ? 0 : m >= 9.995 ? 1 : 2);
}

std::string with_unit_ns(double ns) {
  if (ns < 999.5) return cat(three_digits(ns), " ns");
  if (ns < 999.5e3) return cat(three_digits(ns / 1e3), " µs");
  if (ns < 999.5e6) return cat(three_digits(ns / 1e6), " ms");
  return cat(three_digits(ns / 1e9), " s");
}

std::string with_unit_bytes(double bytes) {
  if (bytes < 999.5) return cat(three_digits(bytes), " B");
  if (bytes < 999.5e3) return cat(three_digits(bytes / 1e3), " kB");
  if (bytes < 999.5e6) return cat(three_digits(bytes / 1e6), " MB");
  if (bytes < 999.5e9) return cat(three_digits(bytes / 1e9), " GB");
  return cat(three_digits(bytes / 1e12), " TB");
}

std::string with_commas(int64_t v) {
  std::string digits = std::to_string(v);
  const size_t sign = v < 0 ? 1 : 0;
  for (size_t i = digits.size(); i > sign + 3;) {
    i -= 3;
    digits.insert(i, ",");
  }
  return digits;
}

int display_width(std::string_view utf8) {
  int n = 0;
  for (unsigned char c : utf8) n += (c & 0xC0) != 0x80;
  return n;
}

std::string columns(const std::vector<std::vector<std::string>>& rows, std::string_view align, std::string_view gap) {
  std::vector<int> width;
  for (const auto& row : rows)
    for (size_t i = 0; i < row.size(); ++i) {
      if (i >= width.size()) width.push_back(0);
      width[i] = std::max(width[i], display_width(row[i]));
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i) line += gap;
      const std::string pad(static_cast<size_t>(width[i] - display_width(row[i])), ' ');
      const bool right = i < align.size() && align[i] == '1';
      line += right ? pad + row[i] : row[i] + pad;
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
  }
  return out;
}

}  // namespace trine
