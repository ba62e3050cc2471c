// What most rows share: reading operands lane by lane, rules about shapes, and the published interval rules.
// Every partition is one lane; a lane sees its own row of each operand. See lanes.cpp for the longer ones.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "arch/call.h"
#include "arch/chips/chip.h"
#include "arch/core.h"
#include "arch/row.h"

namespace trine::arch {

// --- values ---

// Whether writing `dst` row by row could change a row of `src` that is still to be read. The engines read ahead of what
// they write, so such an operand is copied first. The very same elements in the same order are safe.
bool clobbers(const Tile& dst, const Tile& src);

// A tile that an instruction reads, as f32 rows. Without a copy where it is contiguous f32 and the result spares it.
class Source {
 public:
  Source(Core& core, const Call& call, std::string_view slot, const Tile& dst);
  const float* row(int p);
  const Tile tile;

 private:
  Core& core_;
  std::string_view slot_;
  bool copied_ = false;
  Rows rows_;            // where they lie, looked at once for all
  bool direct_ = false;  // as f32 that can be used where it is
  std::vector<float> values_;
};

// dst = src of the same format and as many elements, bit for bit. `apart`: no row of dst is one that is still to be
// read.
void copy_bytes(Core& c, const Tile& dst, std::string_view dst_slot, const Tile& src, std::string_view src_slot,
                bool apart);

// Room that the instructions of one host thread use in turn.
std::vector<std::byte>& byte_room(size_t bytes);

// The same, as raw bits and as exact integers; always read first, so nothing can clobber them.
std::vector<uint32_t> read_all_bits(Core& c, const Call& i, std::string_view slot);
std::vector<int64_t> read_all_int(Core& c, const Call& i, std::string_view slot);

// One number per lane from an immediate or a [partitions, 1] tile; `absent` when the operand is left out.
using Scalars = std::array<float, 128>;
Scalars read_scalars(Core& c, const Call& i, std::string_view slot, float absent = 0);
std::array<uint32_t, 128> read_scalar_bits(Core& c, const Call& i, std::string_view slot);

// One element of a tile's rows as a tile of its own; `one` has to outlive it.
Tile element_of(const Tile& t, int64_t at, Pattern& one);
void write_element(Core& c, const Tile& t, int row, int64_t at, uint32_t bits);

// f32 rows that may be read and written where they lie.
inline bool lies_as_f32(const Tile& t, const Rows& rows) {
  return rows && t.dtype == Dtype::f32 && t.dense && reinterpret_cast<uintptr_t>(rows.first) % alignof(float) == 0 &&
         rows.apart % static_cast<ptrdiff_t>(alignof(float)) == 0;
}

// dst[p] = f(p, out) for every lane, through f32: f(int p, float* out).
template <class F>
void write_rows(Core& c, const Tile& dst, F f, std::string_view slot = "dst") {
  c.set_slot(slot);
  const Rows to = c.rows(dst, true);
  if (!c.trap_nan && lies_as_f32(dst, to)) {
    for (int p = 0; p < dst.partitions; ++p) f(p, reinterpret_cast<float*>(to.at(p)));
    return;
  }
  std::vector<float> out(static_cast<size_t>(dst.row_elements));
  for (int p = 0; p < dst.partitions; ++p) {
    f(p, out.data());
    c.set_slot(slot);
    if (to && !c.trap_nan)
      c.put(dst, to.at(p), out.data());
    else
      c.store(dst, p, out.data());
  }
}

// dst[p] = f(a[p], n) for every row, through f32: f(const float* a, float* d, int64_t n).
template <class F>
void map_rows(Core& c, const Call& i, std::string_view dst, std::string_view a, F f) {
  const Tile d = i.tile(dst);
  Source source(c, i, a, d);
  write_rows(c, d, [&](int p, float* out) { f(source.row(p), out, source.tile.row_elements); }, dst);
}

// --- rules ---

// Each named tile (absent ones are passed over) has as many partitions as the first; with `elements`, as many
// elements per partition too.
Result<void> same_lanes(const Call& i, std::initializer_list<std::string_view> slots);
Result<void> same_shape(const Call& i, std::initializer_list<std::string_view> slots);
// An operand that is one value per lane: an immediate, or a tile of [partitions of `like`, 1].
Result<void> one_per_lane(const Call& i, std::string_view slot, std::string_view like);
Result<void> not_both_psum(const Call& i, std::string_view a, std::string_view b);
// Every tile holds numbers the engines compute with: 8 to 32 bits, no MX carrier.
Result<void> computable(const Call& i);
Result<void> chip_has(const Chip& k, const Call& i, Feature f, std::string_view what);

// --- time ---

double interval_min(const Chip& k, Engine e);

// The published rule for most instructions: `elements` steps per lane, never under the engine's floor, and the cycles
// that Vector and Scalar take to reach memory. Operands whose innermost stride is too wide take stride_factor as long;
// an address from a register has a floor of its own.
Cost interval(const Chip& k, const Call& i, double elements, bool fast = false);
double stride_slowdown(const Chip& k, const Call& i);  // 1, or stride_factor

// The factor of the vector fast modes for a copy-like instruction from `src` to `dst`; 1 when it does not qualify.
double copy_speedup(const Chip& k, const Call& i, const Tile& dst, const Tile& src);
bool half_width(const Chip& k, Dtype d);   // a format that the fast modes take
bool innermost_contiguous(const Tile& t);  // neighbouring elements are neighbours in memory
int64_t innermost_stride_bytes(const Tile& t);

}  // namespace trine::arch
