// Heads of attention in memory: tiles of one head's rows, transposed or not, in the multiply's format, and where the
// rows of a result go. What attention and its gradient have in common.
#pragma once

#include <array>
#include <map>

#include "compile/device/memory/store.h"
#include "compile/graph/attention.h"
#include "compile/graph/index_map.h"

namespace trine::compile::device {

// A value's memory and its strides by what varies.
struct Heads {
  Memory* memory = nullptr;
  int64_t offset = 0, batch = 0, kv = 0, shared = 0, position = 0, dim = 0;

  int64_t at(int64_t b, int64_t g, int64_t s) const { return b * batch + g * kv + s * shared; }
};

// An operand of a match, `position` the dim of the weights that its positions are: through views, to what has memory.
Heads heads_of(Store& store, const AttentionMatch& match, const AttentionOperand& from, int position);
Heads result_heads(Store& store, const AttentionMatch& match);

class HeadTiles {
 public:
  HeadTiles(Recorder& rec, Store& store, Dtype dtype) : rec_(rec), store_(store), dtype_(dtype) {}

  Dtype dtype() const { return dtype_; }
  // [dim, positions] from element e0 on: from a form that holds it so, else rows transposed by the tensor engine.
  View transposed(const Heads& o, int64_t e0, int64_t positions, int64_t dim);
  // [positions, dim], the positions on partitions: at most 128.
  View rows(const Heads& o, int64_t e0, int64_t positions, int64_t dim);

 private:
  // On chip in the multiply's format, the whole value brought into it where it has another.
  std::optional<View> found(const Heads& o, int64_t e0, const Axis& part, const Axis& free);
  bool load(const Heads& o, int64_t e0, int64_t positions, const View& to);

  Recorder& rec_;
  Store& store_;
  Dtype dtype_;
};

// Rows of a result: on chip where it may stay, else in HBM.
class HeadRows {
 public:
  HeadRows(Recorder& rec, Store& store, const Heads& to, int64_t positions);
  void put(const struct Val& value, int64_t e0, int64_t rows, int64_t dim);

 private:
  Recorder& rec_;
  Store& store_;
  Heads to_;
  Form* form_ = nullptr;
};

inline constexpr double kMasked = -1e30;  // what is added to a score that is not looked at

// What is added to scores, or a mask of them, in memory. Scores are scaled later, so it is divided by the scale first.
class HeadBias {
 public:
  // bias: its dim is the keys'. dtype: the multiply's.
  HeadBias(Recorder& rec, Store& store, const Heads& bias, bool is_mask, double scale, int64_t keys, Dtype dtype)
      : rec_(rec), store_(store), bias_(bias), is_mask_(is_mask), scale_(scale), keys_(keys), dtype_(dtype) {}

  bool is_mask() const { return is_mask_; }
  void enter(int64_t b, int64_t g, int64_t s) { at_ = bias_.at(b, g, s); }
  // Scores in PSUM, of queries from `first` on and keys from `key` on, with it added.
  View added(const View& scores, int64_t first, int64_t key);

 private:
  View part(int64_t rows, int64_t columns, int64_t first, int64_t key, Dtype dtype);

  Recorder& rec_;
  Store& store_;
  Heads bias_;
  bool is_mask_;
  double scale_;
  int64_t keys_;
  Dtype dtype_;
  int64_t at_ = 0;
  View ones_ = {};
  std::map<std::array<int64_t, 3>, View> parts_ = {};
};

// One f32 for each row of every head, positions on partitions and heads along them: what a gradient asks of attention.
Form& row_form(Store& store, const ir::Value& value, int64_t positions);

}  // namespace trine::compile::device
