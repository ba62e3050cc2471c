// dot_general on the tensor engine: panels of both operands with the contracted dim on partitions, accumulated in PSUM.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "compile/device/memory/store.h"
#include "compile/graph/index_map.h"

namespace trine::compile::device {

// What a multiply reads operands as; nothing: as the graph says.
struct DotPolicy {
  std::optional<Dtype> cast = {};
};

// Of a multiply that stands for a sum: operands are not cast.
inline constexpr std::string_view kKeepsFormat = "keeps_format";

bool multiplies(Dtype d);
std::string dot_obstacle(const ir::Node& dot);

// A product that is never stored: its reader asks for blocks of it, which are then in PSUM.
class Product {
 public:
  virtual ~Product() = default;
  // Minor dims of the product on partitions?
  virtual bool is_transposed() const = 0;
  // Rows of the left operand that one panel of it holds; blocks are best asked for panel by panel.
  virtual int64_t panel_rows() const = 0;
  // Can blocks of this many rows and columns be asked for, wherever they begin at a multiple of it? minor: the extent
  // of the loop's minor dim. in_a_row: the others are one dim.
  virtual bool holds(int64_t part, int64_t free, int64_t minor, bool in_a_row) const = 0;
  // The most columns of a block.
  virtual int64_t block_columns() const = 0;
  virtual View block(int64_t e0, const Axes& part, const Axes& free) = 0;
};
std::unique_ptr<Product> product_of(Recorder& rec, Store& store, const ir::Node& dot, bool transposed,
                                    const DotPolicy& policy);

// out: the value to make, the dot itself or a transpose of it. transposed: its minor dim goes to partitions where it
// can.
void lower_dot(Recorder& rec, Store& store, const ir::Node& dot, const ir::Node& out, bool transposed,
               const DotPolicy& policy);

// Its variants, those that differ. First that which gives both panels half of SBUF in all, the right one more where the
// left operand is small; others within the half but for one.
std::vector<Choice> dot_variants(Recorder& rec, Store& store, const ir::Node& dot, bool transposed,
                                 const DotPolicy& policy);

// One dim of a multiply: how far each side moves in its own memory. 0 where the side has it not.
struct Shared {
  int64_t count = 1, left = 0, right = 0, out = 0;
};

// An operand: the value that has memory, and the walk over the operand's dims in it.
struct Side {
  Memory* memory = nullptr;
  Walk walk = {};
  int64_t batch = 0;  // which of the side's own batches is in hand
};
Side side_of(Store& store, ir::Value v);

// A multiply as strides alone, each list outermost first.
struct Strides {
  Side left = {}, right = {};
  ir::Value out = {};
  std::vector<Shared> batch = {}, rows = {}, columns = {}, depth = {};
  bool windows = false;  // rows of the left side are windows of an image whose channels lie densely
};
std::unique_ptr<Product> product_of(Recorder& rec, Store& store, const Strides& strides, const DotPolicy& policy);
void lower_strides(Recorder& rec, Store& store, const Strides& strides, const DotPolicy& policy);

}  // namespace trine::compile::device
