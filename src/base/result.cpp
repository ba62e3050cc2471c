// Failures: making, copying and freeing the errors they carry.
#include "base/result.h"

namespace trine {

Failure::Failure(const Error& error) : error_(new Error(error)) {}
Failure::Failure(Error&& error) : error_(new Error(std::move(error))) {}
Failure::Failure(const Failure& other) : error_(other.error_ ? new Error(*other.error_) : nullptr) {}
void Failure::drop(const Error* error) { delete error; }

const Error& Failure::error() const {
  static const Error kNone{};
  return error_ ? *error_ : kNone;
}

Failure fail(Code code, std::string message, std::string where) {
  return Error{code, std::move(message), std::move(where)};
}

}  // namespace trine
