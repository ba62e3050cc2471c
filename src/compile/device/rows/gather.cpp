// Tiles of rows and the indices looked up in them; see gather.h.
#include "compile/device/rows/gather.h"

#include <map>

#include "base/text.h"
#include "compile/device/memory/moves.h"
#include "compile/thresholds.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::rows;

constexpr int64_t kIndicesMax = 4096;  // of a row that one instruction finds

class RowGather {
 public:
  RowGather(Recorder& rec, Store& store, const ir::Node& node)
      : rec_(rec),
        store_(store),
        x_(store.of(node.inputs[0])),
        index_(store.of(node.inputs[1])),
        out_(store.of(node.result())) {
    const Dims& dims = node.types[0].dims;
    rows_ = dims[0], each_ = dims[1], columns_ = node.inputs[0].type().dims[1];
    together_ = rows_ / node.inputs[1].type().dims[0];
    one_ = rows_ > 1 && node.inputs[0].type().dims[0] == 1;
    tiling_ = Tiling::of({rows_ / together_, together_}, rec.chip().partitions);
  }

  void run() {
    Form* form = nullptr;
    if (each_ * bytes(out_.dtype) * tiling_.tiles() <= store_.keep_bytes())
      form = &store_.new_form(out_, out_.dtype, false, each_, tiling_);
    else
      store_.keep_in_hbm(out_, "", arch::TensorKind::scratch);
    for (int64_t t = 0; t < tiling_.tiles(); ++t) {
      const int64_t first = tiling_.begin(t), rows = tiling_.size(t);
      if (!one_ || t == 0)
        data_ = held(x_, one_ ? 0 : first * columns_, {{one_ ? 0 : columns_, rows}}, columns_, "rows");
      View data = data_;
      data.partitions = int(rows);
      for (int64_t at = 0; at < each_; at += kIndicesMax) {
        const int64_t count = std::min(kIndicesMax, each_ - at);
        View dst = form ? form->tile(t) : rec_.sbuf(out_.dtype, rows, count, "found");
        if (form) dst.offset = at, dst.axes = {{1, count}};
        rec_.emit("nc_n_gather", {{"dst", dst}, {"data", data}, {"indices", indices(t, at, count)}});
        if (!form) store_.store(uint32_t(out_.hbm), out_.dtype, first * each_ + at, {{each_, rows}}, {{1, count}}, dst);
      }
    }
  }

 private:
  View held(Memory& m, int64_t e0, const Axes& part, int64_t count, std::string_view name) {
    for (const Form& f : m.forms)
      if (const auto v = access(f, e0, part, {{1, count}}); v && v->partition == 0 && f.dtype == m.dtype) return *v;
    const View t = rec_.sbuf(m.dtype, count_of(part), count, name);
    store_.load(t, store_.hbm(m), m.dtype, e0, part, {{1, count}});
    return t;
  }
  // Of the rows that look at the same indices, each has its copy of them.
  View indices(int64_t t, int64_t at, int64_t count) {
    const int64_t rows = tiling_.size(t), item = tiling_.begin(t) / together_;
    const Axes part = rows >= together_ ? Axes{{each_, rows / together_}, {0, together_}} : Axes{{0, rows}};
    const bool alone = together_ == 1;
    auto [found, fresh] = indices_.try_emplace({alone ? t : item, at, rows});
    if (fresh) found->second = held(index_, item * each_ + at, alone ? Axes{{each_, rows}} : part, count, "places");
    View view = found->second;
    view.dtype = Dtype::u32;
    return view;
  }

  Recorder& rec_;
  Store& store_;
  Memory &x_, &index_, &out_;
  int64_t rows_ = 1, each_ = 1, columns_ = 1, together_ = 1;
  bool one_ = false;  // row of x for all
  View data_ = {};
  Tiling tiling_ = {};
  std::map<std::array<int64_t, 3>, View> indices_;
};

}  // namespace

bool gathers_in_rows(const ir::Type& x, int64_t columns, int64_t each) {
  const auto dtype = device_dtype(x.dtype);
  return dtype && columns * bytes(*dtype) <= tuned::kGatheredBytes && columns <= each * tuned::kPassed &&
         x.elements() / columns * each >= tuned::kGatheredLeast;
}

std::string row_gather_obstacle(const ir::Node& node) {
  if (std::string why = move_obstacle(node); !why.empty()) return why;
  const ir::Type& x = node.inputs[0].type();
  const int64_t size = x.dims[1] * bytes(*device_dtype(x.dtype));
  return size <= tuned::kGatheredBytes ? std::string() : cat("rows of ", size, " bytes do not fit a partition");
}

void lower_row_gather(Recorder& rec, Store& store, const ir::Node& node) { RowGather(rec, store, node).run(); }

}  // namespace trine::compile::device
