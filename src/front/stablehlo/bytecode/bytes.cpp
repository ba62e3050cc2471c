// MLIR's number encodings: docs/BytecodeFormat.md of MLIR, "Primitives".
#include "front/stablehlo/bytecode/bytes.h"

#include <bit>
#include <cstring>

namespace trine::front::stablehlo {

Result<uint8_t> Bytes::byte(std::string_view what) {
  if (bytes_.empty()) return error(cat("the bytes end where ", what, " was expected"));
  const auto b = uint8_t(bytes_[0]);
  skip(1);
  return b;
}

Result<uint64_t> Bytes::varint(std::string_view what) {
  if (bytes_.empty()) return error(cat("the bytes end where ", what, " was expected"));
  const auto first = uint8_t(bytes_[0]);
  const int more = first == 0 ? 8 : std::countr_zero(first);
  if (bytes_.size() < size_t(more) + 1) return error(cat("the bytes end inside ", what));
  uint64_t value = 0;
  if (more == 8) {
    std::memcpy(&value, bytes_.data() + 1, 8);
  } else {
    std::memcpy(&value, bytes_.data(), size_t(more) + 1);
    value >>= more + 1;
  }
  skip(size_t(more) + 1);
  return value;
}

Result<int64_t> Bytes::signed_varint(std::string_view what) {
  const uint64_t v = TRY(varint(what));
  return int64_t(v >> 1) ^ -int64_t(v & 1);
}

Result<Flagged> Bytes::flagged(std::string_view what) {
  const uint64_t v = TRY(varint(what));
  return Flagged{v >> 1, (v & 1) != 0};
}

Result<uint64_t> Bytes::count(std::string_view what) {
  const uint64_t n = TRY(varint(what));
  if (n > left()) return error(cat(what, " is ", n, ", but only ", left(), " bytes are left"));
  return n;
}

Result<uint64_t> Bytes::below(uint64_t limit, std::string_view what) {
  const Bytes before = *this;
  const uint64_t v = TRY(varint(what));
  if (v >= limit) return before.error(cat(what, " is ", v, ", but there are only ", limit));
  return v;
}

Result<Bytes> Bytes::take(uint64_t size, std::string_view what) {
  if (size > left()) return error(cat(what, " of ", size, " bytes, but only ", left(), " are left"));
  Bytes part(bytes_.substr(0, size), offset_);
  skip(size);
  return part;
}

Result<std::string_view> Bytes::until_zero(std::string_view what) {
  const size_t end = bytes_.find('\0');
  if (end == std::string_view::npos) return error(cat("no zero byte ends ", what));
  const std::string_view text = bytes_.substr(0, end);
  skip(end + 1);
  return text;
}

}  // namespace trine::front::stablehlo
