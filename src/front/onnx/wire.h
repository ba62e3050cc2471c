// Protobuf's wire format, read without protobuf: a message is a row of numbered fields over borrowed bytes.
// Not a schema: model.cpp knows which numbers mean what. Invariant: no field reaches past the bytes of its message.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/text.h"

namespace trine::front::onnx {

enum class WireType : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct Field {
  uint32_t number = 0;
  WireType type = WireType::varint;
  uint64_t bits = 0;            // varint, fixed64, fixed32
  std::string_view bytes = {};  // strings, messages, packed lists

  int64_t integer() const { return int64_t(bits); }
  float real() const { return std::bit_cast<float>(uint32_t(bits)); }
};

class Wire {
 public:
  explicit Wire(std::string_view bytes) : rest_(bytes) {}

  bool at_end() const { return rest_.empty(); }

  Result<Field> next() {
    const uint64_t tag = TRY(varint());
    Field field{.number = uint32_t(tag >> 3), .type = WireType(tag & 7)};
    if (tag >> 32 != 0 || field.number == 0) return fail(Code::invalid, cat("found a field tag of ", tag));
    switch (field.type) {
      case WireType::varint:
        field.bits = TRY(varint());
        return field;
      case WireType::fixed64:
        field.bits = TRY(fixed(8));
        return field;
      case WireType::fixed32:
        field.bits = TRY(fixed(4));
        return field;
      case WireType::bytes: {
        const uint64_t size = TRY(varint());
        if (size > rest_.size())
          return fail(Code::invalid,
                      cat("field ", field.number, " claims ", size, " bytes; ", rest_.size(), " follow"));
        field.bytes = rest_.substr(0, size);
        rest_.remove_prefix(size);
        return field;
      }
    }
    return fail(Code::invalid, cat("field ", field.number, " has wire type ", tag & 7, "; expected 0, 1, 2 or 5"));
  }

  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (int i = 0; i < 10 && size_t(i) < rest_.size(); ++i) {
      const auto byte = uint8_t(rest_[size_t(i)]);
      value |= uint64_t(byte & 0x7f) << (7 * i);
      if (byte < 0x80) {
        rest_.remove_prefix(size_t(i) + 1);
        return value;
      }
    }
    return fail(Code::invalid, "a number that does not end");
  }

  Result<uint64_t> fixed(size_t size) {
    if (rest_.size() < size) return fail(Code::invalid, cat("expected ", size, " bytes; ", rest_.size(), " follow"));
    uint64_t value = 0;
    std::memcpy(&value, rest_.data(), size);  // little-endian, as every machine we run on
    rest_.remove_prefix(size);
    return value;
  }

 private:
  std::string_view rest_;
};

// A repeated number: packed into one field, or one field each. Fixed ones are of T's size.
template <class T>
Result<void> append_numbers(const Field& field, std::vector<T>& out) {
  constexpr bool kFloating = std::is_floating_point_v<T>;
  const auto take = [](uint64_t bits) {
    if constexpr (sizeof(T) == 4 && kFloating) {
      return std::bit_cast<T>(uint32_t(bits));
    } else {
      return std::bit_cast<T>(bits);
    }
  };
  if (field.type != WireType::bytes) {
    out.push_back(take(field.bits));
    return {};
  }
  if (kFloating && field.bytes.size() % sizeof(T) != 0)
    return fail(Code::invalid, cat("a list of ", field.bytes.size(), " bytes, in elements of ", sizeof(T)));
  Wire list(field.bytes);
  while (!list.at_end()) out.push_back(take(TRY(kFloating ? list.fixed(sizeof(T)) : list.varint())));
  return {};
}

}  // namespace trine::front::onnx
