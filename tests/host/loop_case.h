// Runs a loop program on random buffers, by the reference and by an executor, and compares all outputs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "arch/plan/loop.h"
#include "host/loops/loop.h"

namespace trine::test {

// The interpreter in both its builds, machine code without AVX-512 and, where this machine has it, with.
inline const host::LoopOptions kBuilds[] = {
    {Simd::portable}, {simd_best(), false, false}, {simd_best(), true, false}, {simd_best()}};

struct LoopBuffers {
  std::vector<std::vector<std::byte>> data = {};
  std::vector<void*> pointers() {
    std::vector<void*> out;
    for (auto& d : data) out.push_back(d.data());
    return out;
  }
};

// Inputs hold ordinary numbers and now and then a special one; outputs a pattern.
LoopBuffers random_buffers(const arch::LoopProgram& program, uint64_t seed, bool special = false);

// Empty, or what differs first. Floats may differ by `ulps` of f32 or f64, or by `relative` of the largest output.
std::string difference(const arch::LoopProgram& program, const LoopBuffers& got, const LoopBuffers& expected,
                       double ulps = 0, double relative = 0);

// Prepares, runs, and compares with the reference.
std::string check_program(const arch::LoopProgram& program, uint64_t seed, const host::LoopOptions& options,
                          double ulps = 0, double relative = 0, bool special = false);

double ulps_between(double got, double expected, bool wide);

}  // namespace trine::test
