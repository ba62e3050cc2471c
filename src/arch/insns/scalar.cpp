// The scalar rows.
#include "arch/row.h"

namespace trine::arch {

std::span<const Row> scalar_rows() { return {}; }

}  // namespace trine::arch
