// dot_general on the tensor engine: panels of both operands with the contracted dim on partitions, accumulated in PSUM.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compile/device/store.h"

namespace trine::compile::device {

// What a multiply reads operands as; nothing: as the graph says.
struct DotPolicy {
  std::optional<Dtype> cast = {};
};

std::string dot_obstacle(const ir::Node& dot);

// A product that is never stored: its reader asks for blocks of it, which are then in PSUM.
class Product {
 public:
  virtual ~Product() = default;
  // Minor dims of the product on partitions?
  virtual bool is_turned() const = 0;
  // Rows of the left operand that one panel of it holds; blocks are best asked for panel by panel.
  virtual int64_t panel_rows() const = 0;
  // Can blocks of this many rows be asked for, wherever they begin at a multiple of it?
  virtual bool holds(int64_t part, int64_t free) const = 0;
  virtual View block(int64_t e0, const Axes& part, const Axes& free) = 0;
};
std::unique_ptr<Product> product_of(Recorder& rec, Store& store, const ir::Node& dot, bool turned,
                                    const DotPolicy& policy);

// out: the value to make, the dot itself or a transpose of it. turned: its minor dim goes to partitions where it can.
void lower_dot(Recorder& rec, Store& store, const ir::Node& dot, const ir::Node& out, bool turned,
               const DotPolicy& policy);

}  // namespace trine::compile::device
