// Compile errors as people see them: a code of Neuron's for the same cause, the user's line, what was found, what was
// expected, what to try.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace trine::compile {

struct CompileCode {
  std::string_view code = {}, title = {}, expected = {}, fix = {};
};

// By what the message says; every error has one.
const CompileCode& code_of(const Error& error);

// The same error with its code and parts as its message; once is enough.
Error coded(const Error& error);

}  // namespace trine::compile
