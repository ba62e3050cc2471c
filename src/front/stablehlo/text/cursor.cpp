// See cursor.h.
#include "front/stablehlo/text/cursor.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/text.h"

namespace trine::front::stablehlo {

namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
int hex_value(char c) { return is_digit(c) ? c - '0' : (c | 32) - 'a' + 10; }
bool in_suffix(char c) { return is_letter(c) || is_digit(c) || c == '$' || c == '.' || c == '-'; }

}  // namespace

void TextCursor::skip_space() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++at_;
    } else if (text_.substr(at_, 2) == "//") {
      at_ = std::min(text_.size(), text_.find('\n', at_));
    } else {
      return;
    }
  }
}

bool TextCursor::done() {
  skip_space();
  return at_ == text_.size();
}

char TextCursor::peek() { return done() ? '\0' : text_[at_]; }

bool TextCursor::sees(std::string_view symbol) {
  skip_space();
  return text_.substr(at_, symbol.size()) == symbol;
}

bool TextCursor::accept(std::string_view symbol) {
  if (!sees(symbol)) return false;
  at_ += symbol.size();
  return true;
}

Result<void> TextCursor::expect(std::string_view symbol) {
  if (!accept(symbol)) return expected(cat("'", symbol, "'"));
  return {};
}

std::string_view TextCursor::word() {
  skip_space();
  const size_t begin = at_;
  if (at_ < text_.size() && is_letter(text_[at_]))
    while (at_ < text_.size() && in_suffix(text_[at_]) && text_[at_] != '-') ++at_;
  return from(begin);
}

bool TextCursor::accept_word(std::string_view wanted) {
  const size_t begin = at_;
  if (word() == wanted) return true;
  at_ = begin;
  return false;
}

Result<void> TextCursor::expect_word(std::string_view wanted) {
  if (!accept_word(wanted)) return expected(cat("'", wanted, "'"));
  return {};
}

std::string_view TextCursor::suffix() {
  const size_t begin = at_;
  if (at_ < text_.size() && is_digit(text_[at_])) {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  } else {
    while (at_ < text_.size() && in_suffix(text_[at_]) && text_.substr(at_, 2) != "->") ++at_;
  }
  return from(begin);
}

Result<std::string> TextCursor::quoted() {
  TRY(expect("\""));
  std::string out;
  while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\n') {
    if (text_[at_] != '\\') {
      out += text_[at_++];
      continue;
    }
    const std::string_view code = text_.substr(at_ + 1, 2);
    const size_t simple = code.empty() ? std::string_view::npos : std::string_view("nt\"\\").find(code[0]);
    if (simple != std::string_view::npos) {
      out += "\n\t\"\\"[simple];
      at_ += 2;
    } else if (code.size() == 2 && is_hex(code[0]) && is_hex(code[1])) {
      out += char(hex_value(code[0]) * 16 + hex_value(code[1]));
      at_ += 3;
    } else {
      return error("a backslash in a string is followed by n, t, \", \\ or two hexadecimal digits");
    }
  }
  if (at_ == text_.size() || text_[at_] == '\n') return error("a string does not end on its line");
  ++at_;
  return out;
}

std::string_view TextCursor::number() {
  skip_space();
  const size_t begin = at_;
  if (at_ < text_.size() && text_[at_] == '-') ++at_;
  if (at_ >= text_.size() || !is_digit(text_[at_])) {
    at_ = begin;
    return {};
  }
  if (text_.substr(at_, 2) == "0x" && at_ + 2 < text_.size() && is_hex(text_[at_ + 2])) {
    at_ += 2;
    while (at_ < text_.size() && is_hex(text_[at_])) ++at_;
    return from(begin);
  }
  auto digits = [&] {
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
  };
  digits();
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    digits();
    size_t exponent = at_;
    if (exponent < text_.size() && (text_[exponent] | 32) == 'e') {
      ++exponent;
      if (exponent < text_.size() && (text_[exponent] == '+' || text_[exponent] == '-')) ++exponent;
      if (exponent < text_.size() && is_digit(text_[exponent])) {
        at_ = exponent;
        digits();
      }
    }
  }
  return from(begin);
}

Result<int64_t> TextCursor::integer() {
  const size_t begin = (skip_space(), at_);
  const std::string_view text = number();
  const bool negative = text.starts_with('-');
  std::string_view digits = text.substr(negative);
  const bool hex = digits.starts_with("0x");
  if (hex) digits.remove_prefix(2);
  uint64_t value = 0;
  const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  const bool large = value > uint64_t(INT64_MAX) + negative;
  if (text.empty() || end != digits.data() + digits.size() || code != std::errc{} || large) {
    at_ = begin;
    return expected("an integer of 64 bits");
  }
  return negative ? int64_t(0 - value) : int64_t(value);
}

Result<std::string_view> TextCursor::balanced() {
  skip_space();
  const size_t begin = at_;
  std::string open;
  do {
    if (at_ >= text_.size()) return error_at(begin, "a bracket is not closed");
    const char c = text_[at_];
    if (c == '"') {
      TRY(quoted());
      continue;
    }
    ++at_;
    if (c == '-' && at_ < text_.size() && text_[at_] == '>') {
      ++at_;
    } else if (c == '<' || c == '(' || c == '[' || c == '{') {
      open += c == '<' ? '>' : c == '(' ? ')' : c == '[' ? ']' : '}';
    } else if (c == '>' || c == ')' || c == ']' || c == '}') {
      if (open.empty() || open.back() != c) return error_at(at_ - 1, "a bracket closes another kind");
      open.pop_back();
    }
  } while (!open.empty());
  return from(begin);
}

Error TextCursor::error_at(size_t at, std::string message) const {
  const std::string_view before = text_.substr(0, at);
  const size_t line = size_t(std::count(before.begin(), before.end(), '\n')) + 1;
  const size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
  return fail(Code::invalid, std::move(message), cat(line, ":", at - start + 1));
}

Error TextCursor::expected(std::string_view what) {
  skip_space();
  const size_t end = std::min(text_.size(), text_.find_first_of(" \n\t,()", at_ + 1));
  const std::string_view found = text_.substr(at_, std::min<size_t>(end - at_, 24));
  return error(cat("expected ", what, ", found ", at_ == text_.size() ? "the end" : cat("'", found, "'")));
}

}  // namespace trine::front::stablehlo
