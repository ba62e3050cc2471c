// create_token: a token that orders nothing yet.
#include "ops/shape.h"

namespace trine::ops {

extern const Op op_create_token{
    .name = "create_token",
    .arity = 0,
    .infer = [](const Call&) -> Inferred { return std::vector<ir::Type>{ir::token_type()}; },
    .eval = [](const Eval&) -> Result<void> { return {}; }};

}  // namespace trine::ops
