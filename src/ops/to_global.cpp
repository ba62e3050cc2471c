// to_global: the devices' parts become a value of the whole program again, joined along `sharding`: the end of what
// to_local began. The partitioner takes it out. C1: ranks agree.
#include "ops/shape.h"

namespace trine::ops {

extern const Op op_to_global{.name = "to_global",
                             .arity = 1,
                             .attrs = "sharding manual_axes is_nested",
                             .infer = [](const Call& call) -> Inferred {
                               if (call.declared.size() != 1 || call.declared[0].rank() != call.inputs[0].rank())
                                 return fail(Code::invalid, "its result type must be given, of the input's rank");
                               return one_type(call.inputs[0].dtype, call.declared[0].dims);
                             },
                             .eval = [](const Eval&) -> Result<void> {
                               return fail(Code::unsupported,
                                           "a program for several devices that has not been partitioned");
                             }};

}  // namespace trine::ops
