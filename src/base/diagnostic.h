// Diagnostic: what is wrong with a kernel, in the parts that the Python side shows apart: the rule, what was found,
// what was expected, what to try, and the user's own line. As text it is an ordinary Error.
#pragma once

#include <cstdint>
#include <string>

#include "base/format/json.h"
#include "base/result.h"

namespace trine {

struct Diagnostic {
  Code code = Code::invalid;
  std::string rule = {}, found = {}, expected = {}, fix = {};
  std::string file = {};  // of the user's source, or empty
  uint32_t line = 0;

  Error error() const;
  std::string json() const;  // one object: code, rule, found, expected, try, file, line
};

// Of an error whose message reads "what is wrong; what to do".
Diagnostic diagnostic_of(const Error& error, std::string_view rule);

std::string_view code_name(Code code);

}  // namespace trine
