// Windows at offsets that data gives; see windows.h.
#include "compile/device/memory/windows.h"

#include <algorithm>

#include "base/text.h"
#include "compile/device/decompose/decompose.h"
#include "compile/thresholds.h"
#include "ir/op_ids.h"

namespace trine::compile::device {

namespace {

namespace tuned = thresholds::memory;

// sizes × strides, neighbours merged: the window as one operand walks it.
Axes axes_of(const ir::Node& node) {
  Axes axes;
  const ir::Ints &sizes = node.attrs.ints("sizes"), &strides = node.attrs.ints("strides");
  for (size_t d = 0; d < sizes.size(); ++d) axes.push_back({strides[d], sizes[d]});
  return collapse(axes);
}

std::string_view alu_of(std::string_view kind) {
  constexpr std::pair<std::string_view, std::string_view> kKinds[] = {
      {"add", "add"},         {"multiply", "multiply"}, {"maximum", "max"},    {"minimum", "min"},
      {"and", "bitwise_and"}, {"or", "bitwise_or"},     {"xor", "bitwise_xor"}};
  for (const auto& [name, alu] : kKinds)
    if (kind == name) return alu;
  return {};
}

class Windows {
 public:
  Windows(Recorder& rec, Store& store, const ir::Node& node)
      : rec_(rec), store_(store), node_(node), axes_(axes_of(node)), offsets_(store.of(node.inputs[1])) {
    count_ = offsets_.elements;
    each_ = count_of(axes_);
  }

  void load() {
    Memory &x = store_.of(node_.inputs[0]), &out = store_.of(node_.result());
    const uint32_t from = store_.hbm(x);
    const int64_t lanes = rec_.chip().partitions;
    const Tiling tiling = Tiling::plain(count_, lanes);
    const bool fits = each_ * bytes(out.dtype) * tiling.tiles() <= store_.keep_bytes();
    if (gathers() && fits) {
      const Form& form = store_.new_form(out, out.dtype, false, each_, tiling);
      return by_rows([&](int64_t t, View there) { rec_.transfer(form.tile(t), there); }, from, x.dtype);
    }
    store_.keep_in_hbm(out, "", arch::TensorKind::scratch);
    const auto dense = [&](int64_t first, int rows) {
      return View{.tensor = uint32_t(out.hbm),
                  .dtype = out.dtype,
                  .partitions = rows,
                  .row_stride = each_,
                  .offset = first * each_,
                  .axes = {{1, each_}}};
    };
    if (gathers())
      return by_rows([&](int64_t t, View there) { rec_.transfer(dense(tiling.begin(t), there.partitions), there); },
                     from, x.dtype);
    one_by_one(from, x.dtype, [&](const View& there, int64_t window, int64_t step) {
      View here = dense(window, 1);
      here.step = step * each_;
      rec_.transfer(here, there);
    });
  }

  // The windows stay where they are, each found by a register of its own.
  void stay() {
    Memory &x = store_.of(node_.inputs[0]), &out = store_.of(node_.result());
    Recorder::Elsewhere where{.tensor = store_.hbm(x), .each = each_};
    for (int64_t w = 0; w < count_; ++w) {
      const Register r = rec_.reserved_register();
      rec_.emit("register_load", {{"dst", r}, {"src", offset_at(w)}});
      where.dynamic.push_back(rec_.by_register(r, 1));
    }
    store_.keep_in_hbm(out, "", arch::TensorKind::scratch);
    out.elsewhere = true;
    rec_.lies_elsewhere(uint32_t(out.hbm), std::move(where));
  }

  void store(int64_t hbm_tensor) {
    Memory &x = store_.of(node_.inputs[0]), &out = store_.of(node_.result()), &updates = store_.of(node_.inputs[2]);
    const uint32_t from = store_.hbm(updates);
    if (hbm_tensor >= 0) {
      store_.hbm(x);
      out.hbm = hbm_tensor;
    } else {
      const uint32_t old = store_.hbm(x);
      store_.keep_in_hbm(out, "", arch::TensorKind::scratch);
      copy_all(rec_, uint32_t(out.hbm), out.dtype, old, x.dtype, out.elements);
    }
    const std::string_view kind = node_.attrs.text("kind");
    const auto dense = [&](int64_t first, int rows) {
      return View{.tensor = from,
                  .dtype = updates.dtype,
                  .partitions = rows,
                  .row_stride = each_,
                  .offset = first * each_,
                  .axes = {{1, each_}}};
    };
    const auto into = uint32_t(out.hbm);
    if (kind == "set" && gathers()) {
      const Tiling tiling = Tiling::plain(count_, rec_.chip().partitions);
      return by_rows([&](int64_t t, View there) { skipping(there, dense(tiling.begin(t), there.partitions)); }, into,
                     out.dtype);
    }
    one_by_one(into, out.dtype, [&](const View& there, int64_t window, int64_t step) {
      View here = dense(window, 1);
      here.step = step * each_;
      if (kind == "set") return skipping(there, here);
      combine(there, here, alu_of(kind));
    });
  }

 private:
  View offset_at(int64_t window, int64_t step = 0) {
    return {.tensor = store_.hbm(offsets_), .dtype = Dtype::s32, .offset = window, .axes = {{1, 1}}, .step = step};
  }
  // Neuron's compiler leaves gathers by index off where GpSimd alone makes descriptors.
  bool gathers() const {
    return count_ > 1 && rec_.chip().has(arch::Feature::dma_indirect) && rec_.chip().has(arch::Feature::hwdge);
  }
  // A window at kNowhere stays where it is.
  void skipping(const View& to, const View& from) {
    rec_.emit("dma_copy", {{"dst", to}, {"src", from}}, {{"oob", std::string_view("skip")}});
  }

  template <class F>
  void by_rows(F f, uint32_t hbm, Dtype dtype) {
    const Form& index = store_.form(offsets_, Dtype::s32, false, 1, Tiling::plain(count_, rec_.chip().partitions));
    for (int64_t t = 0; t < index.tiling.tiles(); ++t) {
      View there{.tensor = hbm, .dtype = dtype, .partitions = int(index.tiling.size(t)), .axes = axes_};
      there.dynamic = rec_.by_rows(index.tile(t), 1);
      f(t, there);
    }
  }

  // f(the window, its number, windows further per iteration)
  template <class F>
  void one_by_one(uint32_t hbm, Dtype dtype, F f) {
    const bool loops = count_ > tuned::kUnrolled;
    if (loops) rec_.loop(double(count_));
    for (int64_t w = 0; w < (loops ? 1 : count_); ++w) {
      const Register r = rec_.next_register();
      rec_.emit("register_load", {{"dst", r}, {"src", offset_at(w, loops ? 1 : 0)}});
      View there{.tensor = hbm, .dtype = dtype, .axes = axes_};
      there.dynamic = rec_.by_register(r, 1);
      f(there, w, loops ? 1 : 0);
    }
    if (loops) rec_.end_loop();
  }

  void combine(const View& there, const View& here, std::string_view alu) {
    const View old = rec_.sbuf(there.dtype, 1, each_, "old"), fresh = rec_.sbuf(here.dtype, 1, each_, "new"),
               sum = rec_.sbuf(there.dtype, 1, each_, "sum");
    rec_.emit("memset", {{"dst", old}}, {{"value", 0.0}});  // what is skipped is read as something
    skipping(old, there);
    rec_.transfer(fresh, here);
    const bool whole = there.dtype == Dtype::s32 || there.dtype == Dtype::u32;
    const bool bits = alu.starts_with("bitwise");
    rec_.emit("tensor_tensor", {{"dst", sum}, {"data1", old}, {"data2", fresh}}, {{"op", alu}},
              whole && !bits ? arch::kGpsimd : arch::kVector);
    skipping(there, sum);
  }

  Recorder& rec_;
  Store& store_;
  const ir::Node& node_;
  Axes axes_;
  Memory& offsets_;
  int64_t count_ = 0, each_ = 0;
};

}  // namespace

std::string window_obstacle(const ir::Node& node) {
  if (std::string why = move_obstacle(node); !why.empty()) return why;
  const Axes axes = axes_of(node);
  if (axes.size() > size_t(arch::kFreeDimsMax)) return cat("a window of ", axes.size(), " dims that are no neighbours");
  const std::string_view kind = node.attrs.text("kind");
  if (node.op == op::window_load || kind == "set") return {};
  if (alu_of(kind).empty()) return cat("scatter by ", kind);
  const Dtype dtype = node.types[0].dtype;
  if (is_integer(dtype) && bits(dtype) < 32 && (kind == "add" || kind == "multiply"))
    return cat("scatter by ", kind, " of ", row(dtype).name, " would keep the nearest number that fits");
  if (count_of(axes) > tuned::kCombineMax)
    return cat("scatter by ", kind, " of windows of ", count_of(axes), " elements");
  return {};
}

void lower_window_load(Recorder& rec, Store& store, const ir::Node& node, bool in_place) {
  Windows windows(rec, store, node);
  in_place ? windows.stay() : windows.load();
}
void lower_window_store(Recorder& rec, Store& store, const ir::Node& node, int64_t into) {
  Windows(rec, store, node).store(into);
}

}  // namespace trine::compile::device
