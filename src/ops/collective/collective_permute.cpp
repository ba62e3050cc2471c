// collective_permute: sends values from device to device as source_target_pairs say; who is no target gets zeros.
// C1: pairs are whole, no device is twice a source or twice a target.
#include <cstring>

#include "ops/collective/collective.h"

namespace trine::ops {

namespace {

Result<std::vector<ir::Type>> infer(const Call& call) {
  const ir::Ints& pairs = call.attrs.ints("source_target_pairs");
  if (pairs.size() % 2) return fail(Code::invalid, "source_target_pairs has a source without a target");
  for (size_t i = 0; i < pairs.size(); ++i)
    for (size_t j = i + 2; j < pairs.size(); j += 2)
      if (pairs[i] == pairs[j])
        return fail(Code::invalid, cat("device ", pairs[i], " is twice a ", i % 2 ? "target" : "source"));
  return same_as_inputs(call);
}

Result<void> eval(const Eval& e) {
  const ir::Ints& pairs = e.node.attrs.ints("source_target_pairs");
  bool is_received = false;
  for (size_t i = 0; i < pairs.size(); i += 2) {
    if (pairs[i] != 0 || pairs[i + 1] != 0)
      return fail(Code::unsupported,
                  cat("collective_permute from device ", pairs[i], " to ", pairs[i + 1], "; this program runs on one"));
    is_received = true;
  }
  for (size_t i = 0; i < e.out.size(); ++i) {
    if (is_received)
      copy_run(e.out[i], 0, e.in[i], 0, e.in[i].elements());
    else
      std::memset(e.out[i].data, 0, e.out[i].bytes());
  }
  return {};
}

}  // namespace

extern const Op op_collective_permute{.name = "collective_permute",
                                      .kind = OpKind::collective,
                                      .attrs = "source_target_pairs channel_id",
                                      .infer = infer,
                                      .eval = eval};

}  // namespace trine::ops
