// to_local: a value of the whole program becomes each device's part of it, cut along `sharding`; where a program
// goes over to being written for one device (JAX's shard_map). The partitioner takes it out. C1: ranks agree.
#include "ops/shape.h"

namespace trine::ops {

extern const Op op_to_local{.name = "to_local",
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
