// Joins the vector engine's tables. The rows themselves stand in vector_*.cpp.
#include "arch/insns/vector.h"

#include <vector>

namespace trine::arch {

std::span<const Row> vector_rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> rows;
    for (auto part : {vector_elementwise_rows()}) rows.insert(rows.end(), part.begin(), part.end());
    return rows;
  }();
  return all;
}

}  // namespace trine::arch
