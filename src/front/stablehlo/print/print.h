// A Module as MLIR text in the generic form, which MLIR and text/text.h read back to the same module.
#pragma once

#include <string>

#include "base/result.h"
#include "front/stablehlo/module.h"

namespace trine::front::stablehlo {

struct PrintOptions {
  bool locations = false;
  size_t bytes_max = size_t{1} << 30;  // attributes are shared, so text can be far longer than its module
};

Result<std::string> print(const Module& module, PrintOptions options = {});
std::string type_text(const Module& module, TypeId type);
std::string attr_text(const Module& module, AttrId attr);

}  // namespace trine::front::stablehlo
