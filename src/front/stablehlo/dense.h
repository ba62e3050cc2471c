// Elements of a constant: checked against the tensor's type and brought to the one form Attr promises.
#pragma once

#include <string_view>

#include "base/result.h"
#include "front/stablehlo/module.h"

namespace trine::front::stablehlo {

// `bytes` holds all elements or one; it stays where it is unless it has to change (bits past the element's width,
// packed booleans). The error has no location: the caller knows it.
Result<AttrId> make_dense(Module& module, TypeId tensor, std::string_view bytes);

// The same of a blob of bytecode, where booleans are packed eight a byte and 0xFF alone is the true splat.
Result<AttrId> make_dense_from_blob(Module& module, TypeId tensor, std::string_view blob);

}  // namespace trine::front::stablehlo
