// Speed of the exact driver as a user runs it: whole programs, every check on, beside a memcpy (bytes read plus
// written) from memory in the same run, and without the race check. One core; least time of several runs.
#include "run/drivers/exact/exact.h"

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "arch/asm/asm.h"
#include "base/text.h"

using namespace trine;

namespace {

double least_seconds(const std::function<void()>& task) {
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < 5; ++round) {
    const auto start = std::chrono::steady_clock::now();
    task();
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return least;
}

struct Case {
  std::string_view name;
  std::string text;
  double bytes = 0;  // read and written by the repeated part
  double flops = 0;
};

// The same work for every tile size, so that setting the machine up weighs little.
int iterations(int columns) { return 64 * 16384 / columns; }
constexpr int kMatmulIterations = 2048;

std::string program(std::string_view dtype, int columns, std::string_view body) {
  std::string shape = cat(dtype, "[128,", columns, "]");
  return cat("program p\ntensor a hbm ", shape, " input\ntensor b hbm ", shape, "\ntensor t sbuf ", shape,
             " at 0:0\ntensor u sbuf ", shape,
             "\ntensor acc psum f32[128,512] at 0:0\nstream sync\n  dma_copy dst=t src=a then s0+=16\n"
             "  dma_copy dst=u src=a then s0+=16\n",
             body);
}

Case elementwise(std::string_view name, std::string_view dtype, int columns, std::string_view insn, double tiles) {
  const double size = dtype == "f32" ? 4 : 2;
  return {name,
          program(dtype, columns,
                  cat("stream vector\n  semaphore_wait wait s0>=32\n  loop ", iterations(columns), "\n    ", insn,
                      "\n  end_loop\n")),
          tiles * 128 * columns * size * iterations(columns)};
}

std::vector<Case> cases() {
  const std::string_view scale = "tensor_scalar dst=u data=t op0=multiply operand0=2 op1=add operand1=1";
  const std::string_view add = "tensor_tensor dst=u data1=t data2=u op=add";
  const auto dma = [](int columns) -> Case {
    return {columns > 512 ? "dma_copy f32 128x16384" : "dma_copy f32 128x512",
            program("f32", columns,
                    cat("  loop ", iterations(columns), "\n    dma_copy dst=b src=t wait s0>=32\n  end_loop\n")),
            2.0 * 128 * columns * 4 * iterations(columns)};
  };
  const std::string matmul =
      cat("stream tensor\n  semaphore_wait wait s0>=32\n  loop ", kMatmulIterations,
          "\n    nc_matmul dst=acc stationary=t[0:128, 0, 128@1] moving=u[0:128, 0, 512@1]\n  end_loop\n");
  const double flops = 2.0 * 128 * 128 * 512 * kMatmulIterations;
  return {elementwise("tensor_scalar f32 128x16384", "f32", 16384, scale, 2),
          elementwise("tensor_scalar f32 128x512", "f32", 512, scale, 2),
          elementwise("tensor_scalar f32 128x64", "f32", 64, scale, 2),
          elementwise("tensor_tensor f32 128x16384", "f32", 16384, add, 3),
          elementwise("tensor_tensor f32 128x512", "f32", 512, add, 3),
          elementwise("tensor_scalar bf16 128x16384", "bf16", 16384, scale, 2),
          elementwise("tensor_scalar bf16 128x512", "bf16", 512, scale, 2),
          dma(16384),
          dma(512),
          {"nc_matmul f32 128x128x512", program("f32", 512, matmul), 0, flops},
          {"nc_matmul bf16 128x128x512", program("bf16", 512, matmul), 0, flops}};
}

double run_seconds(const arch::Program& p, const arch::Chip& chip, const run::Inputs& inputs, bool races) {
  return least_seconds([&] {
    const auto r = run::run_exact(p, chip, inputs, {.check_races = races});
    if (!r || !r->findings.empty()) std::puts("the program did not run cleanly");
  });
}

// Bytes read and written a second by a copy that no cache holds.
double copy_rate() {
  std::vector<std::byte> from(size_t{256} << 20, std::byte{1}), to(from.size());
  return 2.0 * static_cast<double>(from.size()) /
         least_seconds([&] { std::memcpy(to.data(), from.data(), from.size()); });
}

}  // namespace

int main() {
  const arch::Chip& chip = **arch::find_chip("trn2");
  const double copy = copy_rate();
  std::printf("memcpy %.1f GB/s\n", copy / 1e9);
  std::vector<std::vector<std::string>> table = {{"program", "checked", "no races", "of memcpy"}};
  for (const Case& c : cases()) {
    auto p = arch::assemble(c.text, "bench");
    if (!p) {
      std::puts(p.error().text().c_str());
      return 1;
    }
    std::vector<std::byte> a(static_cast<size_t>(arch::tensor_bytes(p->tensors[0])), std::byte{1});
    const run::Inputs inputs{{"a", a}};
    const double checked = run_seconds(*p, chip, inputs, true), plain = run_seconds(*p, chip, inputs, false);
    if (c.flops) {
      table.push_back({std::string(c.name), fixed(c.flops / checked / 1e9, 1) + " GFLOP/s",
                       fixed(c.flops / plain / 1e9, 1) + " GFLOP/s", ""});
      continue;
    }
    table.push_back({std::string(c.name), fixed(c.bytes / checked / 1e9, 1) + " GB/s",
                     fixed(c.bytes / plain / 1e9, 1) + " GB/s", fixed(100 * c.bytes / checked / copy, 0) + " %"});
  }
  std::puts(columns(table, "0111").c_str());
}
