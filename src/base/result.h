// Result<T>: a value or an Error, for everything a file, an argument or a request can cause.
// Our own bugs go through CHECK; faults of the simulated machine are data in a run's report, never an Error.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace trine {

// Eight codes; each has one exit code in tools/, one PJRT code and one HTTP code at the edges.
enum class Code : uint8_t {
  invalid,        // the input is wrong
  not_found,      // a name or a file that is not there
  unsupported,    // understood, but this build or this chip cannot do it
  out_of_memory,  // of a virtual device
  out_of_range,   // an index or a size past its limit
  io,             // the world outside failed
  cancelled,      // the user stopped it
  internal,       // our own bug, caught
};

struct Error {
  Code code = Code::internal;
  std::string message;  // what was found, what was expected
  std::string where;    // file:line, stream and instruction, or empty

  std::string text() const { return where.empty() ? message : where + ": " + message; }
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return value_.has_value(); }
  bool has_value() const { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return error_; }

 private:
  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)), ok_(false) {}

  explicit operator bool() const { return ok_; }
  bool has_value() const { return ok_; }
  void operator*() const {}
  const Error& error() const { return error_; }

 private:
  Error error_;
  bool ok_ = true;
};

inline Error fail(Code code, std::string message, std::string where = {}) {
  return Error{code, std::move(message), std::move(where)};
}

}  // namespace trine

// Unwraps a Result or returns its error upward.
#define TRY(expr)                                                 \
  __extension__({                                                 \
    auto try_result_ = (expr);                                    \
    if (!try_result_) return ::trine::Error(try_result_.error()); \
    *std::move(try_result_);                                      \
  })

// Our own bug: on in release. No input may reach a CHECK.
#define CHECK(cond, why)                                                                   \
  do {                                                                                     \
    if (!(cond)) {                                                                         \
      std::fprintf(stderr, "%s:%d: trine bug: %s (%s)\n", __FILE__, __LINE__, why, #cond); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)
