// Microkernels: up to 6 rows of A times a panel of B, for blocks of depth; panels come from L2 in order.
// A family fixes the arithmetic: its unit is the size of a sum, of a step of a row of A, and of one of the columns
// whose steps fill the 64 bytes of a panel of B. A step of depth is one element, or a pair of them (s16). Invariant: a
// sum runs in order of depth from zero within a block, whatever the rows, so results do not depend on cuts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/number/number.h"
#include "base/simd.h"

namespace trine::host {

enum class Family : uint8_t {
  floats,  // all of 8 to 32 bits, as f32
  pairs,   // integers of up to 8 bits, as pairs of s16 summed in s32
  f64,
  int32,  // signed or not, of 16 and 32 bits: low bits are the same
  int64,
  c64,
  c128,
};

struct FamilyRow {
  int64_t unit = 4;      // bytes
  int64_t elements = 1;  // of depth, in a step
  Dtype sum = Dtype::f32;
};
inline constexpr FamilyRow kFamilies[] = {
    {4, 1, Dtype::f32},                        // floats
    {4, 2, Dtype::s32},                        // pairs
    {8, 1, Dtype::f64},                        // f64
    {4, 1, Dtype::s32}, {8, 1, Dtype::s64},    // int32, int64
    {8, 1, Dtype::c64}, {16, 1, Dtype::c128},  // c64, c128
};
constexpr const FamilyRow& row(Family family) { return kFamilies[size_t(family)]; }

constexpr int64_t kStepBytes = 64;    // of a panel, in the kernel's format
constexpr int64_t kRowsMax = 6;       // rows of a group
constexpr int64_t kPanelsWide = 4;    // of a wide kernel: 24 sums of a whole step
constexpr int64_t kDepthBlock = 768;  // steps; sums go through memory between blocks

constexpr int64_t panel_width(Family family) { return kStepBytes / row(family).unit; }
constexpr int64_t depth_steps(Family family, int64_t k) {
  return (k + row(family).elements - 1) / row(family).elements;
}

// What the kernel reads B as: a family's own format, or floats as they are stored.
enum class PanelFormat : uint8_t { floats, pairs, f64, int32, int64, c64, c128, bf16, f16 };
constexpr PanelFormat format_of(Family family) { return PanelFormat(family); }

// What the next calls will read: `stride` bytes a step are fetched into L2 on the way. Any address will do.
struct Ahead {
  const void* from = nullptr;
  int64_t stride = 0;
};

// c[r][j] = sum over d of a[d][r] * b[d][j] for the columns j of a panel, or += with `add`; `ld` is c's row stride in
// elements.
using MicroKernel = void (*)(const void* a, const void* b, int64_t depth, void* c, int64_t ld, bool add, Ahead ahead);
// Rows of A in units: as packed, {data, 1, rows}, or as they lie in a matrix, {data, its row stride, 1}.
struct Rows {
  const void* data = nullptr;
  int64_t stride = 1, step = 1;  // from row to row, from step to step of depth
};
// The same for kPanelsWide panels side by side, `b_stride` bytes apart.
using WideKernel = void (*)(Rows a, const void* b, int64_t b_stride, int64_t depth, void* c, int64_t ld, bool add,
                            Ahead ahead);
struct MicroKernels {
  MicroKernel rows[kRowsMax + 1] = {};  // by number of rows; [0] is null
  WideKernel wide[kRowsMax + 1] = {};   // null where registers do not suffice: all, or those of many rows
  WideKernel row[kPanelsWide] = {};     // one row by fewer panels than that, from two on
};

const MicroKernels& micro_kernels(PanelFormat format, Simd simd);
// Only where simd_best() says avx2, or the processor has AVX-512; null where the one before serves.
const MicroKernels* micro_kernels_avx2(PanelFormat format);
const MicroKernels* micro_kernels_avx512(PanelFormat format);

}  // namespace trine::host
