// A cursor over part of a file's bytes with MLIR's number encodings. Every length is checked against the bytes left,
// so that nothing read from a file can ask for more memory than the file itself has.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/text.h"

namespace trine::front::stablehlo {

struct Flagged {
  uint64_t value = 0;
  bool flag = false;
};

class Bytes {
 public:
  Bytes() = default;
  Bytes(std::string_view bytes, size_t offset) : bytes_(bytes), offset_(offset) {}

  size_t offset() const { return offset_; }  // in the file, of the next byte
  size_t left() const { return bytes_.size(); }
  std::string_view rest() const { return bytes_; }

  Result<uint8_t> byte(std::string_view what);
  Result<uint64_t> varint(std::string_view what);        // prefix varint: trailing zeros of the first byte count bytes
  Result<int64_t> signed_varint(std::string_view what);  // zigzag
  Result<Flagged> flagged(std::string_view what);        // the lowest bit is a flag
  Result<uint64_t> count(std::string_view what);         // of things that take a byte or more each
  Result<uint64_t> below(uint64_t limit, std::string_view what);  // an index
  Result<Bytes> take(uint64_t size, std::string_view what);
  Result<std::string_view> until_zero(std::string_view what);

  Error error(std::string message) const { return fail(Code::invalid, std::move(message), cat("byte ", offset_)); }

 private:
  void skip(size_t n) {
    bytes_.remove_prefix(n);
    offset_ += n;
  }

  std::string_view bytes_;
  size_t offset_ = 0;
};

}  // namespace trine::front::stablehlo
