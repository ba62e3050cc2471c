// The eight largest, where they are, and the same again without them; see top_k.h.
#include "compile/device/rows/top_k.h"

#include <algorithm>
#include <limits>

#include "compile/device/loops/map.h"
#include "compile/thresholds.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::rows;

constexpr int64_t kEight = 8;                         // that an instruction finds
constexpr int64_t kColumnsMax = 16384;                // that it looks through
constexpr int64_t kRoundsMax = kColumnsMax / kEight;  // of eight each

View columns(View v, int64_t begin, int64_t count) {
  v.offset += begin;
  v.axes = {{1, count}};
  return v;
}

// Rows [first, first + count) of the operand on partitions.
View rows_of(Recorder& rec, Store& store, Memory& x, int64_t first, int64_t count, int64_t n) {
  for (const Form& f : x.forms)
    if (const auto v = access(f, first * n, {{n, count}}, {{1, n}}); v && starts_well(*v)) return *v;
  const View t = rec.sbuf(x.dtype, count, n, "rows");
  store.load(t, store.hbm(x), x.dtype, first * n, {{n, count}}, {{1, n}});
  return t;
}

}  // namespace

bool takes_top_k(const ir::Node& node) {
  const ir::Type& x = node.inputs[0].type();
  const int64_t n = x.dims.back();
  return device_dtype(x.dtype) && is_floating(x.dtype) && bytes(x.dtype) >= 2 && n >= kEight && n <= kColumnsMax &&
         node.attrs.integer("k") <= kEight * kRoundsMax && node.types[0].elements() > 0 &&
         x.elements() > tuned::kRankedLeast / n;
}

void lower_top_k(Recorder& rec, Store& store, const ir::Node& node) {
  Memory& x = store.of(node.inputs[0]);
  Memory* const out[] = {&store.of(node.result(0)), &store.of(node.result(1))};
  const int64_t n = node.inputs[0].type().dims.back(), k = node.attrs.integer("k"), lanes = rec.chip().partitions;
  const Tiling tiling = Tiling::plain(x.elements / n, lanes);
  Form* forms[2] = {};
  for (size_t i : {0, 1}) {
    if (store.fits(*out[i]))
      forms[i] = &store.new_form(*out[i], out[i]->dtype, false, k, tiling);
    else
      store.keep_in_hbm(*out[i], "", arch::TensorKind::scratch);
  }
  for (int64_t t = 0; t < tiling.tiles(); ++t) {
    const int64_t rows = tiling.size(t), first = tiling.begin(t);
    View rest = rows_of(rec, store, x, first, rows, n);
    View found[2];
    for (size_t i : {0, 1}) found[i] = forms[i] ? forms[i]->tile(t) : rec.sbuf(out[i]->dtype, rows, k, "largest");
    for (int64_t at = 0; at < k; at += kEight) {
      const View top = rec.sbuf(Dtype::f32, rows, kEight, "top"), index = rec.sbuf(Dtype::u32, rows, kEight, "place");
      const int64_t count = std::min(kEight, k - at);
      rec.emit("max8", {{"dst", top}, {"src", rest}});
      rec.emit("nc_find_index8", {{"dst", index}, {"data", rest}, {"vals", top}});
      emit_copy(rec, columns(found[0], at, count), Val::tile(columns(top, 0, count)));
      emit_copy(rec, columns(found[1], at, count), Val::tile(columns(index, 0, count)));
      if (at + kEight >= k) continue;
      const View less = rec.sbuf(x.dtype, rows, n, "rows");
      rec.emit("nc_match_replace8", {{"dst", less}, {"data", rest}, {"vals", top}},
               {{"imm", std::numeric_limits<double>::quiet_NaN()}});  // equal to nothing, and never found again
      rest = less;
    }
    for (size_t i : {0, 1})
      if (!forms[i]) store.store(uint32_t(out[i]->hbm), out[i]->dtype, first * k, {{k, rows}}, {{1, k}}, found[i]);
  }
}

}  // namespace trine::compile::device
