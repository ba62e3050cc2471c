// What every type and record of a module satisfies, whichever reader made it, so that consumers need not ask again.
#pragma once

#include <vector>

#include "base/result.h"
#include "front/stablehlo/module.h"
#include "front/stablehlo/records.h"

namespace trine::front::stablehlo {

Result<void> check_type(const Module& module, const Type& type);

// The only way to a record that has fields: of another kind or absent, they are an error.
Result<AttrId> make_record(Module& module, const RecordRow& row, std::vector<AttrId> fields);

bool is_packable(const Type& type);  // as an element of array<...>

// The value of a field that is not written: 0, empty, false, absent. Types and attributes have none.
Result<AttrId> default_field(Module& module, FieldKind kind);

}  // namespace trine::front::stablehlo
