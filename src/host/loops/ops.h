// The interpreter's kernels: one instruction over a chunk of lanes. Three builds of the same templates exist: portable,
// AVX2, and of 64-bit lanes AVX-512 (ops_portable.cpp, ops_avx2.cpp, ops_avx512.cpp); this is what all offer. Chunks
// may share memory only exactly.
#pragma once

#include <cstdint>

#include "arch/plan/loop.h"
#include "base/simd.h"

namespace trine::host {

// How a value lies in a chunk. Integers below 32 bits are kept in range in 32-bit lanes; truth is 0 or all ones.
enum class Lane : uint8_t { f32, f64, s32, u32, s64, u64, mask };
Lane lane_of(Dtype value_type);
constexpr int bytes(Lane lane) { return lane == Lane::f64 || lane == Lane::s64 || lane == Lane::u64 ? 8 : 4; }

// Accumulators of a reduction along the vector: element i of a chunk goes to accumulator i modulo their number.
inline constexpr int kAccumulatorBytes = 128;

struct LoopAux {
  int64_t start = 0;      // iota: of the chunk
  int64_t stride = 1;     // strided load and store, and pick, in elements
  int64_t most = 0;       // pick: the largest index
  uint32_t bits = 32;     // of the type: shifts, counts, wraps
  uint32_t exponent = 0;  // reduce_precision
  uint32_t mantissa = 0;
  Dtype dtype = Dtype::f32;  // memory side of loads and stores; round_to
};

using LoopFn = void (*)(void* d, const void* a, const void* b, const void* c, int64_t n, const LoopAux& aux);

struct LoopFnKey {
  arch::LoopOp op = arch::LoopOp::count;
  Lane lane = Lane::f32;                                         // of the (last) input
  Lane to = Lane::f32;                                           // of the result
  bool a_uniform = false, b_uniform = false, c_uniform = false;  // one number for the whole chunk
};

// One build's kernels. find() gives null where no kernel takes uniform inputs: they are spread first.
struct LoopKernels {
  LoopFn (*find)(const LoopFnKey& key) = nullptr;
  LoopFn (*load)(Dtype dtype, bool strided) = nullptr;   // to lanes
  LoopFn (*store)(Dtype dtype, bool strided) = nullptr;  // from lanes
  LoopFn (*pick)(Dtype dtype) = nullptr;                 // to lanes, from memory b at indices a
  LoopFn (*wrap)(Dtype type) = nullptr;                  // in place, to a narrow integer's range; null: none needed
  LoopFn (*spread)(Lane lane) = nullptr;                 // n copies of a[0]
  LoopFn (*accumulate)(arch::LoopOp op, Lane lane) = nullptr;  // d: accumulators, a: a chunk
  LoopFn (*fold)(arch::LoopOp op, Lane lane) = nullptr;        // d[0] from the accumulators a
  LoopFn (*identity)(arch::LoopOp op, Lane lane) = nullptr;    // n times what the reduction starts from
  LoopFn (*pair)(arch::LoopOp op, Lane lane) = nullptr;        // d = op(a, b), lane by lane
};

const LoopKernels& loop_kernels_portable();
const LoopKernels& loop_kernels_avx2();
const LoopKernels& loop_kernels_avx512();  // only where has_avx512_dq(); those of 32-bit lanes are AVX2's
const LoopKernels& loop_kernels(Simd simd);

}  // namespace trine::host
