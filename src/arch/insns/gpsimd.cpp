// The gpsimd rows.
#include "arch/row.h"

namespace trine::arch {

std::span<const Row> gpsimd_rows() { return {}; }

}  // namespace trine::arch
