// How a program's f32 is computed: as it is, or in a narrower format where the user allows it, as the device's compiler
// does (`--auto-cast`); and how narrow formats are rounded. Passes over the graph, for the host and the device alike.
// Invariant: the types of parameters and results stay; with everything off the graph is left alone.
#pragma once

#include <cstdint>

#include "base/number/number.h"
#include "ir/graph.h"

namespace trine::compile {

enum class AutoCast : uint8_t {
  none,
  matmult,  // operands of dot_general and convolution; sums stay f32
  all,      // and every f32 tensor between ops
};

struct Numerics {
  AutoCast cast = AutoCast::none;
  Dtype type = Dtype::bf16;    // bf16, f16, tf32 or f8e4m3
  bool is_stochastic = false;  // what becomes bf16, f16 or f8 is rounded up or down by chance
  uint64_t seed = 0;           // of that chance
  bool operator==(const Numerics&) const = default;
};

// A dot_general or convolution of JAX's precision HIGHEST is left f32, one of HIGH is tf32 at least.
ir::Graph auto_cast(const ir::Graph& graph, const Numerics& numerics);
// To be run last: its nodes are not to be folded or shared.
ir::Graph round_stochastically(const ir::Graph& graph, const Numerics& numerics);

}  // namespace trine::compile
