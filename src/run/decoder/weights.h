// A decoder's tensors by name ("layers.3.q", "tokens", "norm.scale"), and what an adapter adds to some of them.
// Names are those of the tree in python/trine/models; a dense layer's weight has the layer's name, its bias ".b".
#pragma once

#include <map>
#include <string>
#include <vector>

#include "host/packed/matrix.h"

namespace trine::run {

struct DecoderWeights {
  std::map<std::string, host::PackedMatrix, std::less<>> matrices;
  std::map<std::string, std::vector<float>, std::less<>> vectors;

  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& [name, m] : matrices) sum += m.bytes();
    for (const auto& [name, v] : vectors) sum += int64_t(v.size() * sizeof(float));
    return sum;
  }
};

// LoRA: y += scale · B (A x), for the layers it names.
struct LowRank {
  host::PackedMatrix a, b;  // [rank, inputs], [outputs, rank]
};
struct Adapter {
  std::map<std::string, LowRank, std::less<>> layers;
  float scale = 1;
  std::string label;  // of its name and weights: tells keys and values made with it from others
};

}  // namespace trine::run
