// Which op a custom_call stands for.
#pragma once

#include "ops/op.h"

namespace trine::ops {

const Op* called_op(const ir::Node& custom_call);  // null: its target has no op of its own

}  // namespace trine::ops
