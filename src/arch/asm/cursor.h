// Cursor: reads tokens from one line of assembly and makes errors that point at them. Knows no grammar beyond tokens.
// Invariant: it never reads past the line, whatever the bytes are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace trine::arch {

class Cursor {
 public:
  Cursor(std::string_view line, std::string_view file, uint32_t number) : line_(line), file_(file), number_(number) {}

  bool at_end();  // only spaces or a comment are left
  char peek();    // next character that is no space, 0 at the end
  bool take(std::string_view symbol);
  bool next_is_word();
  std::string_view word();  // [A-Za-z_/][A-Za-z0-9_./]*, empty when there is none
  std::string_view peek_word();
  Result<void> expect(std::string_view symbol, std::string_view what);
  Result<int64_t> integer(std::string_view what);
  Result<double> number(std::string_view what);
  Result<std::string> text(std::string_view what);  // a word or a quoted string
  bool next_is_number();

  size_t position() { return peek(), at_; }
  void go_to(size_t position) { at_ = position; }
  Error found_instead(std::string_view expected);  // at the next token
  Error error_at(size_t position, Code code, std::string message) const;
  uint32_t number() const { return number_; }
  std::string_view rest() const { return line_.substr(at_); }

 private:
  Result<std::string> quoted();
  std::string_view line_, file_;
  size_t at_ = 0;
  uint32_t number_;
};

// "; did you mean `a`?", or nothing when no name is close.
std::string did_you_mean(std::string_view word, std::span<const std::string> names);

template <class Range, class F>
std::vector<std::string> names_of(const Range& range, F name) {
  std::vector<std::string> out;
  for (const auto& one : range) out.emplace_back(name(one));
  return out;
}

bool is_register_name(std::string_view word, char letter);  // letter and digits: r5, i0, s12
void append_name(std::string& out, std::string_view name);  // as a word where it reads back as one, else quoted
void append_quoted(std::string& out, std::string_view s);

}  // namespace trine::arch
