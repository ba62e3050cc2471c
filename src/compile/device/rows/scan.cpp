// Block by block, each from where the last one ended; see scan.h.
#include "compile/device/rows/scan.h"

#include <algorithm>
#include <array>

#include "compile/device/loops/map.h"
#include "compile/device/memory/transpose.h"
#include "compile/thresholds.h"
#include "ops/identity.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::rows;

constexpr int64_t kTransposeSide = 128;  // rows and columns that are transposed at once
constexpr int64_t kSideBySide = 4;       // such blocks in a bank of PSUM

class Scan {
 public:
  Scan(Recorder& rec, Store& store, const ir::Node& node)
      : rec_(rec),
        store_(store),
        x_(store.of(node.inputs[0])),
        out_(store.of(node.result())),
        transpose_engine_(exact_transpose_engine(rec.chip(), store.choice.transpose_engine)),
        reverse_(node.attrs.flag("reverse")) {
    const Dims& dims = node.types[0].dims;
    groups_ = dims[0], n_ = dims[1], columns_ = dims[2];
    const std::string_view kind = node.attrs.text("kind");
    alu_ = kind == "maximum" ? "max" : kind == "minimum" ? "min" : kind;
    identity_ = ops::identity(kind, Dtype::f32);
  }

  void all() {
    if (columns_ > 1) {
      store_.keep_in_hbm(out_, "", arch::TensorKind::scratch);
      for (int64_t g = 0; g < groups_; ++g)
        for (int64_t c = 0; c < columns_; c += kSideBySide * kTransposeSide) along_rows(g, c);
      return;
    }
    const Tiling tiling = Tiling::plain(groups_, rec_.chip().partitions);
    Form* const form = store_.fits(out_) ? &store_.new_form(out_, out_.dtype, false, n_, tiling) : nullptr;
    if (!form) store_.keep_in_hbm(out_, "", arch::TensorKind::scratch);
    for (int64_t t = 0; t < tiling.tiles(); ++t) along_columns(tiling, t, form);
  }

 private:
  // dst = what runs over src, from `before` on; both as they lie.
  void scan(View dst, View src, const std::optional<View>& before) {
    if (reverse_)
      for (View* v : {&dst, &src}) {
        v->offset += v->axes[0].count - 1;
        v->axes = {{-1, v->axes[0].count}};
      }
    View same = rec_.constant_row(identity_);
    same.partitions = dst.partitions;
    same.axes = {{0, dst.columns()}};
    rec_.emit("tensor_tensor_scan",
              {{"dst", dst}, {"data0", src}, {"data1", same}, {"initial", before ? Source(*before) : identity_}},
              {{"op0", alu_}, {"op1", alu_}});
  }
  // Where a scan ended.
  View end_of(View v) const {
    if (!reverse_) v.offset += v.columns() - 1;
    v.axes = {{1, 1}};
    return v;
  }
  template <class F>
  void over_blocks(int64_t size, F&& f) const {
    const int64_t blocks = (n_ + size - 1) / size;
    for (int64_t i = 0; i < blocks; ++i) {
      const int64_t b = reverse_ ? blocks - 1 - i : i;
      f(b * size, std::min(size, n_ - b * size));
    }
  }
  static View cut(View v, int64_t begin, int64_t count) {
    v.offset += begin;
    v.axes = {{1, count}};
    return v;
  }

  void along_columns(const Tiling& tiling, int64_t t, const Form* form) {
    const int64_t rows = tiling.size(t);
    std::optional<View> before;
    over_blocks(tuned::kScanBlock, [&](int64_t begin, int64_t count) {
      const int64_t e0 = tiling.begin(t) * n_ + begin;
      const Axes part = {{n_, rows}}, free = {{1, count}};
      std::optional<View> src;
      for (const Form& f : x_.forms)
        if (auto v = access(f, e0, part, free); !src && v && starts_well(*v)) src = v;
      if (!src) {
        src = rec_.sbuf(x_.dtype, rows, count, "in");
        store_.load(*src, store_.hbm(x_), x_.dtype, e0, part, free);
      }
      const bool straight = form && out_.dtype == Dtype::f32;
      const View run = straight ? cut(form->tile(t), begin, count) : rec_.sbuf(Dtype::f32, rows, count, "run");
      scan(run, *src, before);
      before = end_of(run);
      if (straight) return;
      View to = run;
      if (form || out_.dtype != Dtype::f32) {
        to = form ? cut(form->tile(t), begin, count) : rec_.sbuf(out_.dtype, rows, count, "run");
        emit_copy(rec_, to, Val::tile(run));
      }
      if (!form) store_.store(uint32_t(out_.hbm), out_.dtype, e0, part, free, to);
    });
  }

  // Columns [first, first + several blocks) of a group.
  void along_rows(int64_t group, int64_t first) {
    const int64_t width = std::min(kSideBySide * kTransposeSide, columns_ - first),
                  blocks = (width + kTransposeSide - 1) / kTransposeSide;
    std::array<std::optional<View>, kSideBySide> before;
    over_blocks(kTransposeSide, [&](int64_t begin, int64_t rows) {
      const int64_t e0 = (group * n_ + begin) * columns_ + first;
      const Axes part = {{columns_, rows}}, free = {{1, width}};
      const View in = rec_.sbuf(x_.dtype, rows, width, "in");
      store_.load(in, store_.hbm(x_), x_.dtype, e0, part, free);
      const View to = rec_.sbuf(out_.dtype, rows, width, "rows");
      for (int64_t b = 0; b < blocks; ++b) {
        const int64_t each = std::min(kTransposeSide, width - b * kTransposeSide);
        const View transposed = transposed_tile(rec_, transpose_engine_, cut(in, b * kTransposeSide, each)),
                   run = rec_.sbuf(Dtype::f32, each, rows, "run");
        scan(run, transposed, before[size_t(b)]);
        before[size_t(b)] = end_of(run);
        emit_transpose(rec_, transpose_engine_, cut(to, b * kTransposeSide, each), {&run, 1});
      }
      store_.store(uint32_t(out_.hbm), out_.dtype, e0, part, free, to);
    });
  }

  Recorder& rec_;
  Store& store_;
  Memory &x_, &out_;
  TransposeEngine transpose_engine_;
  bool reverse_;
  int64_t groups_ = 1, n_ = 1, columns_ = 1;
  std::string_view alu_;
  double identity_ = 0;
};

}  // namespace

void lower_scan(Recorder& rec, Store& store, const ir::Node& node) { Scan(rec, store, node).all(); }

}  // namespace trine::compile::device
