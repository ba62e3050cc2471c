// A position in a text and the words of MLIR's language at it. Space and // comments before a word are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trine::front::stablehlo {

class TextCursor {
 public:
  explicit TextCursor(std::string_view text) : text_(text) {}

  size_t at() const { return at_; }
  void go(size_t at) { at_ = at; }
  std::string_view from(size_t begin) const { return text_.substr(begin, at_ - begin); }
  std::string_view rest() const { return text_.substr(at_); }

  bool done();                         // nothing but space is left
  char peek();                         // the next character after space; 0 at the end
  bool sees(std::string_view symbol);  // punctuation
  bool accept(std::string_view symbol);
  Result<void> expect(std::string_view symbol);
  bool accept_word(std::string_view word);
  Result<void> expect_word(std::string_view word);
  std::string_view word();              // [A-Za-z_][A-Za-z0-9_$.]*, or empty
  std::string_view suffix();            // what follows % ^ @ # !, without space before it
  Result<std::string> quoted();         // "..." with \n, \t, \", \\ and \xx
  Result<int64_t> integer();            // decimal or 0x, with a minus
  std::string_view number();            // an integer's or a float's characters, with a minus, or empty
  Result<std::string_view> balanced();  // <...>, (...), [...] or {...} from its bracket on, strings skipped

  Error error(std::string message) const { return error_at(at_, std::move(message)); }
  Error error_at(size_t at, std::string message) const;
  Error expected(std::string_view what);  // "expected X, found Y"

 private:
  void skip_space();

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace trine::front::stablehlo
