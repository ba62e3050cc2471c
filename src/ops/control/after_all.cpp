// after_all: a token that comes after all the input tokens. C1: inputs are tokens.
#include "ops/shape.h"

namespace trine::ops {

extern const Op op_after_all{.name = "after_all",
                             .infer = [](const Call& call) -> Inferred {
                               for (const ir::Type& t : call.inputs)
                                 if (!t.is_token)
                                   return fail(Code::invalid, cat("takes tokens; ", ir::text(t), " given"));
                               return std::vector<ir::Type>{ir::token_type()};
                             },
                             .eval = [](const Eval&) -> Result<void> { return {}; },
                             .takes_tokens = true};

}  // namespace trine::ops
