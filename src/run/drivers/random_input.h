// Made-up inputs for programs that are run without data: reproducible from the seed, small enough not to overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "arch/program/program.h"

namespace trine::run {

// Floats uniform in [-1, 1), signed integers in [-8, 8), unsigned and booleans in [0, 8) and {0, 1}.
std::vector<std::byte> random_bytes(const arch::Tensor& tensor, uint64_t seed);

}  // namespace trine::run
