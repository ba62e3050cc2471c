// Json: one value with ordered objects, a strict parser (RFC 8259, no duplicate keys) and a writer.
// Not for streaming: a document is held whole. Invariant: parse_json(v.text()) equals v, for finite numbers.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace trine {

class Json {
 public:
  using Array = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in the order written

  Json() = default;
  Json(std::nullptr_t) {}
  template <std::integral T>
  Json(T v) {
    if constexpr (std::same_as<T, bool>) {
      value_ = v;
    } else {
      value_ = static_cast<int64_t>(v);
    }
  }
  Json(double v) : value_(v) {}
  Json(std::string v) : value_(std::move(v)) {}
  Json(std::string_view v) : value_(std::string(v)) {}
  Json(const char* v) : value_(std::string(v)) {}
  Json(Array v) : value_(std::move(v)) {}
  Json(Object v) : value_(std::move(v)) {}
  static Json array() { return Array{}; }
  static Json object() { return Object{}; }

  bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_bool() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_number() const { return is_integer() || std::holds_alternative<double>(value_); }
  bool is_string() const { return std::holds_alternative<std::string>(value_); }
  bool is_array() const { return std::holds_alternative<Array>(value_); }
  bool is_object() const { return std::holds_alternative<Object>(value_); }
  std::string_view kind() const;  // "number", "object", … for messages

  // Readers never fail: another kind reads as false, 0, "" or empty.
  bool boolean() const;
  int64_t integer() const;  // a fraction is cut, a double past int64 saturates
  double number() const;
  const std::string& string() const;
  const Array& items() const;
  const Object& members() const;
  const Json* find(std::string_view key) const;  // null when absent or not an object

  // Builders; on a value of another kind they start a fresh array or object.
  Json& push(Json v);
  Json& set(std::string_view key, Json v);  // replaces or appends

  std::string text(int indent = 0) const;    // 0: one line; otherwise that many spaces a level
  bool operator==(const Json& other) const;  // 2 and 2.0 are equal

 private:
  std::variant<std::nullptr_t, bool, int64_t, double, std::string, Array, Object> value_ = nullptr;
};

// `name` (a path) leads the error's where: "trn2.json:3:14".
Result<Json> parse_json(std::string_view text, std::string_view name = "");

void append_json_string(std::string& out, std::string_view s);  // quoted and escaped
bool is_utf8(std::string_view s);

}  // namespace trine
