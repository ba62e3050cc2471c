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

// An Error on its way up, in one pointer: a Result that succeeded carries a null one, and code that passes an error on
// moves it. Its functions are in result.cpp, so that the many places that return early stay small.
class [[nodiscard]] Failure {
 public:
  Failure() = default;  // none
  Failure(const Error& error);
  Failure(Error&& error);
  Failure(const Failure& other);
  Failure(Failure&& other) noexcept : error_(std::exchange(other.error_, nullptr)) {}
  Failure& operator=(Failure other) noexcept {
    std::swap(error_, other.error_);
    return *this;
  }
  ~Failure() {
    if (error_) drop(error_);
  }

  explicit operator bool() const { return error_ != nullptr; }
  const Error& error() const;  // empty where there is none
  operator const Error&() const { return error(); }

 private:
  static void drop(const Error* error);

  const Error* error_ = nullptr;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(const Error& error) : failure_(error) {}
  Result(Error&& error) : failure_(std::move(error)) {}
  Result(Failure failure) : failure_(std::move(failure)) {}

  explicit operator bool() const { return value_.has_value(); }
  bool has_value() const { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return failure_.error(); }
  Failure&& failure() && { return std::move(failure_); }

 private:
  std::optional<T> value_;
  Failure failure_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(const Error& error) : failure_(error) {}
  Result(Error&& error) : failure_(std::move(error)) {}
  Result(Failure failure) : failure_(std::move(failure)) {}

  explicit operator bool() const { return !failure_; }
  bool has_value() const { return !failure_; }
  void operator*() const {}
  const Error& error() const { return failure_.error(); }
  Failure&& failure() && { return std::move(failure_); }

 private:
  Failure failure_;
};

Failure fail(Code code, std::string message, std::string where = {});

}  // namespace trine

// Unwraps a Result or returns its error upward.
#define TRY(expr)                                              \
  __extension__({                                              \
    auto try_result_ = (expr);                                 \
    if (!try_result_) return std::move(try_result_).failure(); \
    *std::move(try_result_);                                   \
  })

// Our own bug: on in release. No input may reach a CHECK.
#define CHECK(cond, why)                                                                   \
  do {                                                                                     \
    if (!(cond)) {                                                                         \
      std::fprintf(stderr, "%s:%d: trine bug: %s (%s)\n", __FILE__, __LINE__, why, #cond); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)
