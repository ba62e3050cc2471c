// Writer, Measure and Reader: the three things done with the fields of container_fields.h.
// Invariant: a Reader takes no memory for more than the bytes in front of it can hold.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "arch/program/container_fields.h"

namespace trine::arch {

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class Writer {
 public:
  std::vector<std::byte> out;

  template <class... T>
  void operator()(const T&... values) {
    (one(values), ...);
  }

 private:
  template <class T>
  void one(const T& v) {
    if constexpr (Plain<T>) {
      raw(&v, sizeof v);
    } else {
      fields(*this, v);
    }
  }
  void one(const std::string& s) {
    one(uint64_t{s.size()});
    raw(s.data(), s.size());
  }
  template <class T>
  void one(const std::vector<T>& v) {
    one(uint64_t{v.size()});
    for (const T& item : v) one(item);
  }
  template <class T, size_t N>
  void one(const std::array<T, N>& v) {
    for (const T& item : v) one(item);
  }
  void raw(const void* from, size_t n) {
    const auto* p = static_cast<const std::byte*>(from);
    out.insert(out.end(), p, p + n);
  }
};

// The bytes of a record whose sequences are all empty: the least that one can take in a file.
class Measure {
 public:
  size_t bytes = 0;

  template <class... T>
  void operator()(const T&... values) {
    (one(values), ...);
  }

 private:
  template <class T>
  void one(const T& v) {
    if constexpr (Plain<T>) {
      bytes += sizeof v;
    } else {
      fields(*this, v);
    }
  }
  void one(const std::string&) { bytes += 8; }
  template <class T>
  void one(const std::vector<T>&) {
    bytes += 8;
  }
  template <class T, size_t N>
  void one(const std::array<T, N>& v) {
    for (const T& item : v) one(item);
  }
};

template <class T>
size_t least_bytes() {
  Measure m;
  m(T{});
  return m.bytes;
}

// After the first thing that does not fit, everything reads as zero and ok() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  bool ok() const { return ok_; }
  bool at_end() const { return in_.empty(); }

  template <class... T>
  void operator()(T&... values) {
    (one(values), ...);
  }

 private:
  template <class T>
  void one(T& v) {
    if constexpr (Plain<T>) {
      raw(&v, sizeof v);
    } else {
      fields(*this, v);
    }
  }
  void one(std::string& s) {
    s.resize(count(1));
    raw(s.data(), s.size());
  }
  template <class T>
  void one(std::vector<T>& v) {
    v.resize(count(least_bytes<T>()));
    for (T& item : v) one(item);
  }
  template <class T, size_t N>
  void one(std::array<T, N>& v) {
    for (T& item : v) one(item);
  }
  void raw(void* to, size_t n) {
    ok_ = ok_ && n <= in_.size();
    if (!ok_ || n == 0) return;
    std::memcpy(to, in_.data(), n);
    in_ = in_.subspan(n);
  }
  size_t count(size_t each) {
    uint64_t n = 0;
    one(n);
    ok_ = ok_ && n <= in_.size() / each;
    return ok_ ? static_cast<size_t>(n) : 0;
  }

  std::span<const std::byte> in_;
  bool ok_ = true;
};

}  // namespace trine::arch
