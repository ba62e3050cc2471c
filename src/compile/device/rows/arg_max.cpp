// One search for the largest, one for the first that is no number; see arg_max.h.
#include "compile/device/rows/arg_max.h"

#include <algorithm>
#include <limits>

#include "base/text.h"
#include "compile/device/loops/map.h"
#include "compile/device/memory/moves.h"

namespace trine::compile::device {

namespace {

constexpr int64_t kEight = 8;          // that an instruction finds
constexpr int64_t kSearchMax = 16384;  // elements that it looks through
constexpr int64_t kFound = 3;          // numbers for each part
constexpr double kInf = std::numeric_limits<double>::infinity();

// Parts [first, first + count) on partitions, what the last of a row lacks filled up.
View parts_of(Recorder& rec, Store& store, Memory& x, int64_t n, int64_t parts, int64_t length, int64_t first,
              int64_t count) {
  const bool even = parts * length == n;
  if (even)
    for (const Form& f : x.forms)
      if (const auto v = access(f, first * length, {{length, count}}, {{1, length}}); v && starts_well(*v)) return *v;
  const View t = rec.sbuf(x.dtype, count, length, "parts");
  if (even) {
    store.load(t, store.hbm(x), x.dtype, first * length, {{length, count}}, {{1, length}});
    return t;
  }
  rec.emit("memset", {{"dst", t}}, {{"value", -kInf}});
  for (int64_t at = first; at < first + count;) {
    const int64_t row = at / parts, part = at % parts;
    const bool last = part + 1 == parts;
    const int64_t rows = last ? 1 : std::min(first + count - at, parts - 1 - part);
    const int64_t width = last ? n - part * length : length;
    View to = t;
    to.partition += int(at - first);
    to.partitions = int(rows);
    to.axes = {{1, width}};
    store.load(to, store.hbm(x), x.dtype, row * n + part * length, {{length, rows}}, {{1, width}});
    at += rows;
  }
  return t;
}

}  // namespace

std::string arg_max_obstacle(const ir::Node& node) {
  if (std::string why = move_obstacle(node); !why.empty()) return why;
  const int64_t length = node.attrs.integer("length");
  if (length >= kEight && length <= kSearchMax) return {};
  return cat("a search looks through ", kEight, " to ", kSearchMax, " elements, parts have ", length);
}

void lower_arg_max(Recorder& rec, Store& store, const ir::Node& node) {
  Memory &x = store.of(node.inputs[0]), &out = store.of(node.result());
  const int64_t n = node.inputs[0].type().dims.back(), parts = node.attrs.integer("parts"),
                length = node.attrs.integer("length");
  const Tiling tiling = Tiling::plain(out.elements / kFound, rec.chip().partitions);
  Form* const form = store.fits(out) ? &store.new_form(out, out.dtype, false, kFound, tiling) : nullptr;
  if (!form) store.keep_in_hbm(out, "", arch::TensorKind::scratch);
  const View none = rec.sbuf(Dtype::f32, tiling.size(0), kEight, "none");
  rec.emit("memset", {{"dst", none}}, {{"value", 0.0}});
  for (int64_t t = 0; t < tiling.tiles(); ++t) {
    const int64_t rows = tiling.size(t), first = tiling.begin(t);
    const View part = parts_of(rec, store, x, n, parts, length, first, rows);
    const View top = rec.sbuf(Dtype::f32, rows, kEight, "top"), index = rec.sbuf(Dtype::u32, rows, kEight, "place"),
               empty = rec.sbuf(Dtype::u32, rows, kEight, "place"),
               numbers = rec.sbuf(Dtype::bf16, rows, length, "numbers");
    View zeros = none;
    zeros.partitions = int(rows);
    rec.emit("max8", {{"dst", top}, {"src", part}});
    rec.emit("nc_find_index8", {{"dst", index}, {"data", part}, {"vals", top}});
    // A NaN is no greater than anything.
    rec.emit("tensor_scalar", {{"dst", numbers}, {"data", part}, {"operand0", -kInf}},
             {{"op0", std::string_view("greater_equal")}});
    rec.emit("nc_find_index8", {{"dst", empty}, {"data", numbers}, {"vals", zeros}});
    const View found = form ? form->tile(t) : rec.sbuf(Dtype::f32, rows, kFound, "found");
    const View from[kFound] = {top, index, empty};
    for (int64_t i = 0; i < kFound; ++i) {
      View to = found, one = from[i];
      to.offset += i;
      to.axes = one.axes = {{1, 1}};
      emit_copy(rec, to, Val::tile(one));
    }
    if (!form) store.store(uint32_t(out.hbm), out.dtype, first * kFound, {{kFound, rows}}, {{1, kFound}}, found);
  }
}

}  // namespace trine::compile::device
