// The activation functions of the scalar engine as one table: meaning, published input range, table set.
// The engine evaluates piecewise polynomials whose tables are not published, so every function is computed in f64 and
// rounded once to f32 (estimate); within one f32 step of the true value inside its range.
// Invariant: the result depends only on the input value, never on its position in the row or on the host.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "arch/enums.h"
#include "base/simd.h"

namespace trine::arch {

struct ActRow {
  Act act = Act::copy;
  void (*run)(const float* in, float* out, size_t n, Simd simd) = nullptr;  // in may be out
  // Inputs the engine is documented for. Outside it gives invalid results.
  float min = 0, max = 0;             // both 0: every input
  bool mirrored = false;              // ±[min, max]
  float (*outside)(float) = nullptr;  // what we return there, see activation.cpp
  int table = -1;                     // index in activation_table_sets(), -1: in every set
  std::string_view summary = {};
  std::string_view range = {};  // min and max for people

  bool ranged() const { return outside != nullptr; }
  bool takes(float x) const;  // inside the range; NaN is
};

const ActRow& activation(Act act);
std::span<const ActRow> activations();                      // by Act
std::span<const std::string_view> activation_table_sets();  // names, for the profiler and the reference page

// What a row of inputs met outside the range.
struct OutsideRange {
  size_t count = 0;
  float first = 0;
};

// out[i] = act(in[i]), out-of-range inputs included; `slope` is prelu's for negative inputs. in may be out.
OutsideRange activate(Act act, const float* in, float* out, size_t n, float slope = 0, Simd simd = simd_best());

}  // namespace trine::arch
