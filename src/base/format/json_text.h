// JsonText: writes a JSON document member by member, for documents of a hundred thousand numbers that nobody holds as
// values; json.h has those, and its text() gives the same bytes. Not checked: who opens closes, and keys need no
// escape.
#pragma once

#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

#include "base/format/json.h"
#include "base/text.h"

namespace trine {

class JsonText {
 public:
  void reserve(size_t bytes) { out_.reserve(bytes); }
  // An object or array, as a member or (without a key) as an item or the whole.
  JsonText& object(std::string_view key = {}) { return open(key, '{', '}'); }
  JsonText& array(std::string_view key = {}) { return open(key, '[', ']'); }
  JsonText& end() {
    out_ += closing_.back();
    closing_.pop_back();
    is_first_ = false;
    return *this;
  }

  template <std::integral T>
  JsonText& put(std::string_view key, T v) {
    begin(key);
    append_text(out_, v);
    return *this;
  }
  JsonText& put(std::string_view key, double v) {
    begin(key);
    std::isfinite(v) ? append_text(out_, v) : append_text(out_, std::string_view("null"));
    return *this;
  }
  JsonText& put(std::string_view key, std::string_view v) {
    begin(key);
    append_json_string(out_, v);
    return *this;
  }
  JsonText& put(std::string_view key, const char* v) { return put(key, std::string_view(v)); }
  JsonText& put(std::string_view key, std::nullptr_t) {
    begin(key);
    out_ += "null";
    return *this;
  }
  std::string take() { return std::move(out_); }

 private:
  JsonText& open(std::string_view key, char with, char closing) {
    begin(key);
    out_ += with;
    closing_ += closing;
    is_first_ = true;
    return *this;
  }
  void begin(std::string_view key) {
    if (!is_first_) out_ += ", ";
    is_first_ = false;
    if (key.data() == nullptr) return;
    out_ += '"';
    out_ += key;
    out_ += "\": ";
  }

  std::string out_, closing_;
  bool is_first_ = true;
};

}  // namespace trine
