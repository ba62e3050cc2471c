// What the tensor engine's rows cost and forbid; their values are in tensor.cpp. Both sides agree here on what the
// attributes of a matmul mean.
#pragma once

#include "arch/call.h"
#include "arch/chips/chip.h"
#include "arch/row.h"

namespace trine::arch {

bool in_transpose_mode(const Chip& k, const Call& i);  // nc_matmul that moves bits instead of multiplying
int64_t rows_per_partition(const Call& i);             // nc_matmul: how many rows of K one partition holds

Cost matmul_cycles(const Chip& k, const Call& i);
Cost matmul_mx_cycles(const Chip& k, const Call& i);
Cost transpose_cycles(const Chip& k, const Call& i);
Result<void> matmul_check(const Chip& k, const Call& i);
Result<void> matmul_mx_check(const Chip& k, const Call& i);
Result<void> transpose_check(const Chip& k, const Call& i);

}  // namespace trine::arch
