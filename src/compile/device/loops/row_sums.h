// What a loop finds of rows too long for one block while it reads them once: sums of exponentials beside the largest
// value, as logsumexp and softmax need both, and one element of each row. loop.cpp says when.
#pragma once

#include <vector>

#include "compile/device/loops/map.h"
#include "compile/graph/fuse.h"

namespace trine::compile::device {

// sum = Σ exp(x - by) of rows whose largest x is `top`, by which the program makes `by`.
struct ShiftedSum {
  const ir::Node *sum = nullptr, *top = nullptr;
  ir::Value x = {}, by = {};
};
std::vector<ShiftedSum> shifted_sums(const Unit& unit);

// Each block's sum is taken from the block's own largest value, and all are brought to one measure at the end:
// Σ exp(x - by) = Σ over blocks of exp(top - by) · Σ exp(x - top).
class BlockSums {
 public:
  BlockSums(Recorder& rec, int partitions, size_t blocks);
  // x: the block's elements, `columns` of them; top: the largest of each row of them.
  void add(size_t block, Val x, int64_t columns, const View& top);
  View total(const Val& by);

 private:
  Recorder& rec_;
  View tops_, sums_;
};

// part = the element of each row of x that is `at` - begin elements from its first; 0 where it is not among them.
// at: f32, one per partition.
void emit_pick(Recorder& rec, const View& part, const Val& x, const View& at, int64_t begin);

}  // namespace trine::compile::device
