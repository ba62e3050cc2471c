// Attributes and types made by both readers, in the one form Module promises.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "front/stablehlo/module.h"

namespace trine::front::stablehlo {

Result<TypeId> make_scalar(Module& module, Scalar scalar);
Result<AttrId> make_boolean(Module& module, bool value);
Result<AttrId> make_integer(Module& module, Scalar scalar, int64_t value);  // i1 makes a boolean; excess bits go
Result<AttrId> make_float(Module& module, Scalar scalar, uint64_t bits);
Result<AttrId> make_string(Module& module, std::string_view text);
Result<AttrId> make_symbol(Module& module, std::string_view text);
Result<AttrId> make_type(Module& module, TypeId type);
Result<AttrId> make_array(Module& module, std::vector<AttrId> elements);
Result<AttrId> make_integers(Module& module, std::span<const int64_t> values);  // array<i64>
Result<AttrId> make_booleans(Module& module, std::span<const int64_t> values);  // array<i1>

// Sorts; two of one name are an error.
Result<void> sort_attrs(std::vector<NamedAttr>& attrs);
Result<AttrId> make_dictionary(Module& module, std::vector<NamedAttr> attrs);

}  // namespace trine::front::stablehlo
