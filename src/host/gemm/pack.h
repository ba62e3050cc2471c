// Panels: a matrix rearranged so that microkernels read it in order. A panel holds `width` lanes (rows of A or columns
// of B) side by side for every step of depth, padded with zeros; one layout serves GEMM and GEMV.
// Not arithmetic: packing widens to the kernel's format or copies, and never rounds.
#pragma once

#include <cstdint>

#include "base/number/number.h"
#include "base/result.h"
#include "base/simd.h"
#include "host/gemm/micro.h"
#include "host/scratch.h"

namespace trine::host {

// A matrix anywhere in memory; strides in elements, of any sign. A transpose is the strides swapped.
struct Matrix {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  int64_t row_stride = 0, col_stride = 1, batch_stride = 0;
};

Result<Family> family_of(Dtype dtype);  // the arithmetic in which it is multiplied

// Where panels of one operand come from: fill() writes `depth` steps from `begin` of `lanes` lanes from `lane` on,
// padded with zeros to `width`, in the family's format.
struct PanelSource {
  void (*fill)(const void* ctx, int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t depth,
               void* to) = nullptr;
  const void* ctx = nullptr;
  // (optional) The same for many panels of kStepBytes at once, `panel_bytes` apart: for lanes that lie side by side,
  // whose memory is better read row by row.
  void (*fill_rows)(const void* ctx, int64_t lane, int64_t lanes, int64_t begin, int64_t depth, void* to,
                    int64_t panel_bytes) = nullptr;
  // (optional) The operand itself, where it needs no packing: in the family's format, steps of depth side by side.
  const std::byte* plain = nullptr;
  int64_t lane_stride = 0;  // elements
};

// A strided matrix as a source; `lane` and `depth` name its two directions.
struct StridedPanels {
  const void* data = nullptr;
  Dtype dtype = Dtype::f32;
  Family family = Family::floats;
  int64_t lane_stride = 0, depth_stride = 0;
  int64_t k = 0;  // elements of depth
  Simd simd = simd_best();

  PanelSource source() const;
  void gather(int64_t lane, int64_t lanes, int64_t width, int64_t begin, int64_t count, void* to) const;
};

// B packed once and used by many calls, in its own precision.
class PackedMatrix {
 public:
  Dtype dtype() const { return dtype_; }
  Family family() const { return family_; }
  int64_t k() const { return k_; }
  int64_t n() const { return n_; }
  int64_t batch() const { return batch_; }
  int64_t panels() const { return (n_ + panel_width(family_) - 1) / panel_width(family_); }
  int64_t step_bytes() const { return step_bytes_; }
  bool is_wide() const { return wide_; }  // panels are in the family's format already
  size_t bytes() const { return memory_.size(); }
  std::byte* panel(int64_t item, int64_t index) const {
    return memory_.data() + (item * panels() + index) * depth_steps(family_, k_) * step_bytes_;
  }
  static Result<PackedMatrix> make(Dtype dtype, int64_t k, int64_t n, int64_t batch);  // panels not yet written
  // Steps of a panel in the family's format.
  void widen(const std::byte* from, int64_t depth, void* to, Simd simd) const;

 private:
  Dtype dtype_ = Dtype::f32;
  Family family_ = Family::floats;
  int64_t k_ = 0, n_ = 0, batch_ = 1;
  int64_t step_bytes_ = 0;
  bool wide_ = true;
  Memory memory_;
};

// b is [k, n]. Fails for dtypes no kernel reads, and when memory is out.
Result<PackedMatrix> pack_b(const Matrix& b, int64_t k, int64_t n, int64_t batch = 1, Simd simd = simd_best());
void unpack_b(const PackedMatrix& from, float* to, int64_t row_stride, int64_t col_stride);  // of f32
size_t packed_bytes(Dtype dtype, int64_t k, int64_t n, int64_t batch = 1);

// The copying loops: units of 1, 2, 4, 8 or 16 bytes to to[d][lane], lanes padded with zeros to `width`.
using UnitPack = void (*)(const void* from, int64_t lane_stride, int64_t depth_stride, int64_t lanes, int64_t width,
                          int64_t depth, void* to);
UnitPack unit_pack(int bytes, Simd simd);
UnitPack unit_pack_avx2(int bytes);  // null where the portable loop serves
// bf16 whose depth is contiguous, as f32; false where it has no loop for so many lanes.
bool pack_bf16_avx2(const void* from, int64_t lane_stride, int64_t lanes, int64_t width, int64_t depth, void* to);

// The same for lanes that lie anywhere: lane l has values for steps [lo, hi) and zeros before and after.
struct LaneRun {
  const void* from = nullptr;  // of step 0
  int64_t lo = 0, hi = 0;
};
using LanePack = void (*)(const LaneRun* runs, int64_t depth_stride, int64_t width, int64_t depth, void* to);
LanePack lane_pack(int bytes, Simd simd);
LanePack lane_pack_avx2(int bytes);

}  // namespace trine::host
