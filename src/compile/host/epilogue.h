// A loop over a multiply's product as the multiply's own last act, tile by tile.
#pragma once

#include <optional>

#include "arch/plan/plan.h"
#include "ir/graph.h"

namespace trine::compile {

// One dim of the product: its size and its stride in the product's memory.
struct ProductDim {
  int64_t size = 1, stride = 0;
};

// The product as the executor makes it: rows in the order in which it counts them, outermost first, then columns.
struct Product {
  std::vector<ProductDim> rows = {};
  ProductDim columns = {};
};
Product product_of(const arch::GemmStep& step);
std::optional<Product> product_of(const arch::ConvStep& step);  // none where it makes rows otherwise

// Leaves of the multiply only what the loop's operand `read` reads of the product, which nobody else does; the loop
// then reads all of it. False, and nothing is changed, where that is no part of rows and columns.
bool narrow_to_read(arch::GemmStep& step, arch::LoopProgram& loop, uint32_t read);

// Multiplies of floats of up to 32 bits, whose sums are f32.
bool makes_products(const ir::Node& node);

// The loop's program over rows and columns of the product, operand 0, which was its operand `read`; nothing where the
// loop walks otherwise.
std::optional<arch::LoopProgram> as_epilogue(const arch::LoopProgram& loop, uint32_t read, const Product& product);

// Whether what it stores lies side by side along the product's columns, as its tiles do.
bool writes_along_columns(const arch::LoopProgram& epilogue);

}  // namespace trine::compile
