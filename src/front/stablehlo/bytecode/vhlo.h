// From the attributes of a VHLO op to those of the StableHLO op it stands for, by the op's row in ops.h.
#pragma once

#include <string_view>
#include <vector>

#include "base/result.h"
#include "front/stablehlo/module.h"
#include "front/stablehlo/ops.h"

namespace trine::front::stablehlo {

Result<void> convert_from_vhlo(Module& module, const OpInfo& op, std::vector<NamedAttr>& attrs);

}  // namespace trine::front::stablehlo
