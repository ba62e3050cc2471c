// JSON parser and writer; see json.h. Recursion is bounded by kDepthMax, so no input can exhaust the stack.
#include "base/format/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "base/text.h"

namespace trine {

namespace {

constexpr int kDepthMax = 200;

class Parser {
 public:
  Parser(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  Result<Json> document() {
    Json v = TRY(value(0));
    skip_space();
    if (at_ != text_.size()) return wrong("end of input");
    return v;
  }

 private:
  Result<Json> value(int depth) {
    if (depth > kDepthMax) return failed(cat("nested deeper than ", kDepthMax));
    skip_space();
    switch (peek()) {
      case '{':
        return object(depth);
      case '[':
        return array(depth);
      case '"': {
        std::string s = TRY(string());
        return Json(std::move(s));
      }
      case 't':
        return word("true", true);
      case 'f':
        return word("false", false);
      case 'n':
        return word("null", nullptr);
      default:
        return number();
    }
  }

  Result<Json> object(int depth) {
    Json::Object members;
    ++at_;
    skip_space();
    if (accept('}')) return Json(std::move(members));
    do {
      skip_space();
      if (peek() != '"') return wrong("a key in quotes");
      std::string key = TRY(string());
      skip_space();
      if (!accept(':')) return wrong("':'");
      Json v = TRY(value(depth + 1));
      members.emplace_back(std::move(key), std::move(v));
      skip_space();
    } while (accept(','));
    if (!accept('}')) return wrong("',' or '}'");
    TRY(no_duplicates(members));
    return Json(std::move(members));
  }

  Result<void> no_duplicates(const Json::Object& members) {
    std::vector<std::string_view> keys;
    for (const auto& [key, v] : members) keys.push_back(key);
    std::sort(keys.begin(), keys.end());
    const auto twice = std::adjacent_find(keys.begin(), keys.end());
    if (twice != keys.end()) return failed(cat("key \"", *twice, "\" twice in the object that ends here"));
    return {};
  }

  Result<Json> array(int depth) {
    Json::Array items;
    ++at_;
    skip_space();
    if (accept(']')) return Json(std::move(items));
    do {
      Json v = TRY(value(depth + 1));
      items.push_back(std::move(v));
      skip_space();
    } while (accept(','));
    if (!accept(']')) return wrong("',' or ']'");
    return Json(std::move(items));
  }

  Result<std::string> string() {
    const size_t begin = at_++;
    std::string out;
    for (;;) {
      if (at_ == text_.size()) return wrong("a closing quote");
      const auto c = static_cast<unsigned char>(text_[at_]);
      if (c < 0x20) return failed(cat("raw control character ", int{c}, " in a string; write it as an escape"));
      ++at_;
      if (c == '"') break;
      if (c != '\\') {
        out += static_cast<char>(c);
        continue;
      }
      TRY(escape(out));
    }
    if (!is_utf8(out)) {
      at_ = begin;
      return failed("string is not valid UTF-8");
    }
    return out;
  }

  Result<void> escape(std::string& out) {
    constexpr std::string_view from = "\"\\/bfnrt", to = "\"\\/\b\f\n\r\t";
    const auto plain = from.find(peek());
    if (at_ < text_.size() && plain != std::string_view::npos) {
      out += to[plain];
      ++at_;
      return {};
    }
    if (!accept('u')) return wrong("one of \" \\ / b f n r t u after '\\'");
    uint32_t code = TRY(hex4());
    if (code >= 0xDC00 && code < 0xE000) return failed("second half of a surrogate pair without the first");
    if (code >= 0xD800 && code < 0xDC00) {
      if (!accept('\\') || !accept('u')) return wrong("the second half of a surrogate pair");
      const uint32_t low = TRY(hex4());
      if (low < 0xDC00 || low >= 0xE000) return failed("surrogate pair whose second half is none");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    append_code_point(out, code);
    return {};
  }

  Result<uint32_t> hex4() {
    uint32_t code = 0;
    if (text_.size() - at_ < 4) return wrong("four hex digits");
    const char* begin = text_.data() + at_;
    if (std::from_chars(begin, begin + 4, code, 16).ptr != begin + 4) return wrong("four hex digits");
    at_ += 4;
    return code;
  }

  static void append_code_point(std::string& out, uint32_t code) {
    const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
    if (code < 0x80) {
      out += static_cast<char>(code);
    } else if (code < 0x800) {
      out += static_cast<char>(0xC0 | (code >> 6));
      tail(0);
    } else if (code < 0x10000) {
      out += static_cast<char>(0xE0 | (code >> 12));
      tail(6), tail(0);
    } else {
      out += static_cast<char>(0xF0 | (code >> 18));
      tail(12), tail(6), tail(0);
    }
  }

  Result<Json> number() {
    const size_t begin = at_;
    accept('-');
    if (!accept('0') && !digits()) {
      at_ = begin;
      return wrong("a value");
    }
    bool whole = true;
    if (accept('.')) {
      whole = false;
      if (!digits()) return wrong("a digit after '.'");
    }
    if (accept('e') || accept('E')) {
      whole = false;
      if (!accept('+')) accept('-');
      if (!digits()) return wrong("a digit in the exponent");
    }
    const char *first = text_.data() + begin, *last = text_.data() + at_;
    int64_t exact = 0;
    const bool minus_zero = *first == '-' && first[1] == '0';
    if (whole && !minus_zero && std::from_chars(first, last, exact).ec == std::errc{}) return Json(exact);
    double v = 0;
    if (std::from_chars(first, last, v).ec != std::errc{}) {
      at_ = begin;
      return failed(cat("number ", std::string_view(first, last).substr(0, 40), " is past what a double holds"));
    }
    return Json(v);
  }

  bool digits() {
    const size_t begin = at_;
    while (peek() >= '0' && peek() <= '9') ++at_;
    return at_ != begin;
  }

  Result<Json> word(std::string_view expected, Json v) {
    if (text_.substr(at_, expected.size()) != expected) return wrong("a value");
    at_ += expected.size();
    return v;
  }

  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool accept(char c) {
    const bool here = at_ < text_.size() && text_[at_] == c;
    at_ += here;
    return here;
  }

  Error wrong(std::string_view expected) const {
    std::string found = "the end";
    if (at_ < text_.size()) {
      const auto c = static_cast<unsigned char>(text_[at_]);
      found = c >= 0x20 && c < 0x7F ? cat('\'', text_[at_], '\'') : cat("byte ", int{c});
    }
    return failed(cat("found ", found, ", expected ", expected));
  }

  Error failed(std::string message) const {
    const auto before = text_.substr(0, at_);
    const auto line = std::count(before.begin(), before.end(), '\n') + 1;
    const auto column = before.size() - (line == 1 ? 0 : before.rfind('\n') + 1) + 1;
    return fail(Code::invalid, std::move(message), cat(name_, name_.empty() ? "" : ":", line, ":", column));
  }

  std::string_view text_, name_;
  size_t at_ = 0;
};

void append_number(std::string& out, double v) { out += std::isfinite(v) ? shortest(v) : "null"; }

void append_break(std::string& out, int indent, int depth) {
  if (indent > 0) out.append("\n").append(static_cast<size_t>(indent) * static_cast<size_t>(depth), ' ');
}

void append_value(std::string& out, const Json& v, int indent, int depth) {
  if (v.is_null())
    out += "null";
  else if (v.is_bool())
    out += v.boolean() ? "true" : "false";
  else if (v.is_integer())
    append_text(out, v.integer());
  else if (v.is_number())
    append_number(out, v.number());
  else if (v.is_string())
    append_json_string(out, v.string());
  else {
    const bool array = v.is_array();
    const size_t count = array ? v.items().size() : v.members().size();
    out += array ? '[' : '{';
    for (size_t i = 0; i < count; ++i) {
      if (i) out += indent > 0 ? "," : ", ";
      append_break(out, indent, depth + 1);
      if (!array) {
        append_json_string(out, v.members()[i].first);
        out += ": ";
      }
      append_value(out, array ? v.items()[i] : v.members()[i].second, indent, depth + 1);
    }
    if (count) append_break(out, indent, depth);
    out += array ? ']' : '}';
  }
}

}  // namespace

std::string_view Json::kind() const {
  constexpr std::array<std::string_view, 7> names = {"null",   "true or false", "number", "number",
                                                     "string", "array",         "object"};
  return names[value_.index()];
}

bool Json::boolean() const {
  const auto* v = std::get_if<bool>(&value_);
  return v && *v;
}

int64_t Json::integer() const {
  if (const auto* v = std::get_if<int64_t>(&value_)) return *v;
  const double d = number();
  if (d >= 9223372036854775807.0) return INT64_MAX;
  if (d <= -9223372036854775808.0) return INT64_MIN;
  return std::isnan(d) ? 0 : static_cast<int64_t>(d);
}

double Json::number() const {
  if (const auto* v = std::get_if<int64_t>(&value_)) return static_cast<double>(*v);
  const auto* v = std::get_if<double>(&value_);
  return v ? *v : 0;
}

const std::string& Json::string() const {
  static const std::string none;
  const auto* v = std::get_if<std::string>(&value_);
  return v ? *v : none;
}

const Json::Array& Json::items() const {
  static const Array none;
  const auto* v = std::get_if<Array>(&value_);
  return v ? *v : none;
}

const Json::Object& Json::members() const {
  static const Object none;
  const auto* v = std::get_if<Object>(&value_);
  return v ? *v : none;
}

const Json* Json::find(std::string_view key) const {
  for (const auto& [name, v] : members())
    if (name == key) return &v;
  return nullptr;
}

Json& Json::push(Json v) {
  if (!is_array()) value_ = Array{};
  std::get<Array>(value_).push_back(std::move(v));
  return *this;
}

Json& Json::set(std::string_view key, Json v) {
  if (!is_object()) value_ = Object{};
  auto& members = std::get<Object>(value_);
  for (auto& [name, old] : members)
    if (name == key) {
      old = std::move(v);
      return *this;
    }
  members.emplace_back(key, std::move(v));
  return *this;
}

bool Json::operator==(const Json& other) const {
  if (is_integer() && other.is_integer()) return integer() == other.integer();
  if (is_number() && other.is_number()) return number() == other.number();
  return value_ == other.value_;
}

std::string Json::text(int indent) const {
  std::string out;
  append_value(out, *this, indent, 0);
  return out;
}

Result<Json> parse_json(std::string_view text, std::string_view name) { return Parser(text, name).document(); }

void append_json_string(std::string& out, std::string_view s) {
  constexpr std::string_view from = "\"\\\b\f\n\r\t", to = "\"\\bfnrt", hex = "0123456789abcdef";
  out += '"';
  size_t begin = 0;  // of what needs no escape
  for (size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    if (static_cast<unsigned char>(c) >= 0x20 && c != '"' && c != '\\') continue;
    out += s.substr(begin, i - begin);
    begin = i + 1;
    if (const auto escaped = from.find(c); escaped != std::string_view::npos) {
      out += '\\';
      out += to[escaped];
    } else {
      out += "\\u00";
      out += hex[static_cast<unsigned char>(c) >> 4];
      out += hex[c & 0xF];
    }
  }
  out += s.substr(begin);
  out += '"';
}

bool is_utf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const auto lead = static_cast<unsigned char>(s[i]);
    const size_t length = lead < 0x80 ? 1 : lead >> 5 == 6 ? 2 : lead >> 4 == 14 ? 3 : lead >> 3 == 30 ? 4 : 0;
    if (!length || s.size() - i < length) return false;
    uint32_t code = length == 1 ? lead : lead & (0xFFu >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      const auto c = static_cast<unsigned char>(s[i + k]);
      if (c >> 6 != 2) return false;
      code = code << 6 | (c & 0x3F);
    }
    constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < least[length] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
    i += length;
  }
  return true;
}

}  // namespace trine
