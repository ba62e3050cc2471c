// Collectives of torch.distributed that this process took part in, counted while somebody asks for times: which one,
// the larger of its buffers, and the group. Whatever group carries the bytes, c10d's ops pass by here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trine::api::neuron {

struct Exchanged {
  std::string op, group;  // "allreduce_", and the group's name
  int64_t bytes = 0, ranks = 0, count = 0;
};

void exchanged_start();  // nested calls count; the first one forgets what was
void exchanged_stop();
std::vector<Exchanged> exchanged();

}  // namespace trine::api::neuron
