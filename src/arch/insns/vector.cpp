// The vector rows.
#include "arch/row.h"

namespace trine::arch {

std::span<const Row> vector_rows() { return {}; }

}  // namespace trine::arch
