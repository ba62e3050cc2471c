// NKI kernels inside a program, by their values: scheduled when the program is compiled, run instruction by instruction
// when it comes to them.
#pragma once

#include <string_view>

#include "compile/host/native.h"

namespace trine::api {

Result<compile::HostFunction> kernel_function(std::string_view payload);  // a compile::FindHostFunction

}  // namespace trine::api
