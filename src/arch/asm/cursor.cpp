// Tokens of one assembly line; see cursor.h.
#include "arch/asm/cursor.h"

#include <charconv>
#include <cmath>

#include "base/text.h"

namespace trine::arch {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '/'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return is_letter(c) || is_digit(c) || c == '.'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

char Cursor::peek() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  return at_ < line_.size() && line_[at_] != '#' ? line_[at_] : '\0';
}

bool Cursor::at_end() { return peek() == '\0' && (at_ >= line_.size() || line_[at_] == '#'); }

bool Cursor::take(std::string_view symbol) {
  peek();
  if (!line_.substr(at_).starts_with(symbol)) return false;
  at_ += symbol.size();
  return true;
}

bool Cursor::next_is_word() { return is_letter(peek()); }

std::string_view Cursor::word() {
  if (!next_is_word()) return {};
  const size_t begin = at_;
  while (at_ < line_.size() && is_word(line_[at_])) ++at_;
  return line_.substr(begin, at_ - begin);
}

std::string_view Cursor::peek_word() {
  const size_t before = position();
  const auto w = word();
  at_ = before;
  return w;
}

Result<void> Cursor::expect(std::string_view symbol, std::string_view what) {
  if (take(symbol)) return {};
  return found_instead(cat("`", symbol, "` ", what));
}

Result<int64_t> Cursor::integer(std::string_view what) {
  peek();
  int64_t v = 0;
  const char *begin = line_.data() + at_, *end = line_.data() + line_.size();
  const auto [next, status] = std::from_chars(begin, end, v);
  if (status == std::errc::result_out_of_range)
    return error_at(at_, Code::out_of_range, cat(what, " does not fit in 64 bits"));
  if (status != std::errc{}) return found_instead(what);
  at_ += static_cast<size_t>(next - begin);
  return v;
}

bool Cursor::next_is_number() {
  const char c = peek();
  if (is_digit(c) || c == '-' || c == '.') return true;
  const auto w = peek_word();
  return w == "inf" || w == "nan";
}

Result<double> Cursor::number(std::string_view what) {
  if (!next_is_number()) return found_instead(what);
  double v = 0;
  const char *begin = line_.data() + at_, *end = line_.data() + line_.size();
  const auto [next, status] = std::from_chars(begin, end, v);
  if (status == std::errc::result_out_of_range)
    return error_at(at_, Code::out_of_range, cat(what, " does not fit in a double"));
  if (status != std::errc{}) return found_instead(what);
  at_ += static_cast<size_t>(next - begin);
  return v;
}

Result<std::string> Cursor::quoted() {
  const size_t begin = at_++;
  std::string out;
  for (; at_ < line_.size() && line_[at_] != '"'; ++at_) {
    if (line_[at_] != '\\') {
      out += line_[at_];
      continue;
    }
    const auto escape = line_.substr(at_ + 1, 3);
    if (escape.starts_with('"') || escape.starts_with('\\')) {
      out += escape[0];
      at_ += 1;
    } else if (escape.size() == 3 && escape[0] == 'x' && hex_value(escape[1]) >= 0 && hex_value(escape[2]) >= 0) {
      out += static_cast<char>(hex_value(escape[1]) * 16 + hex_value(escape[2]));
      at_ += 3;
    } else {
      return error_at(at_, Code::invalid, "found an unknown escape, expected \\\", \\\\ or \\x and two digits 0-9a-f");
    }
  }
  if (at_ >= line_.size()) return error_at(begin, Code::invalid, "found a string without its closing `\"`");
  ++at_;
  return out;
}

Result<std::string> Cursor::text(std::string_view what) {
  if (peek() == '"') return quoted();
  const auto w = word();
  if (w.empty()) return found_instead(what);
  return std::string(w);
}

Error Cursor::found_instead(std::string_view expected) {
  const size_t begin = position();
  if (at_end()) return error_at(begin, Code::invalid, cat("found the end of the line, expected ", expected));
  std::string_view found = word();
  if (found.empty()) {
    size_t end = begin + 1;
    while (end < line_.size() && (static_cast<unsigned char>(line_[end]) & 0xC0) == 0x80) ++end;
    while (is_digit(line_[begin]) && end < line_.size() && is_word(line_[end])) ++end;
    found = line_.substr(begin, end - begin);
  }
  return error_at(begin, Code::invalid, cat("found `", found, "`, expected ", expected));
}

Error Cursor::error_at(size_t position, Code code, std::string message) const {
  return fail(code, std::move(message), cat(file_, ":", number_, ":", position + 1));
}

std::string did_you_mean(std::string_view word, std::span<const std::string> names) {
  const auto close = nearest(word, names);
  if (close.empty()) return {};
  return cat("; did you mean `", close[0], "`?");
}

bool is_register_name(std::string_view word, char letter) {
  if (word.size() < 2 || word[0] != letter) return false;
  for (char c : word.substr(1))
    if (!is_digit(c)) return false;
  return true;
}

void append_quoted(std::string& out, std::string_view s) {
  constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : s) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

void append_name(std::string& out, std::string_view name) {
  bool plain = !name.empty() && is_letter(name[0]) && name != "inf" && name != "nan";
  for (char c : name) plain = plain && is_word(c);
  for (char letter : {'r', 'i', 's'}) plain = plain && !is_register_name(name, letter);
  if (plain)
    out += name;
  else
    append_quoted(out, name);
}

}  // namespace trine::arch
