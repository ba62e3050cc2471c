// Speed of the timer: instructions a second with jumping off and on, and the memory of a very long program.
// Each row is the least of several runs.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include "arch/asm/asm.h"
#include "base/embedded.h"
#include "base/text.h"
#include "sim/core/timing.h"

namespace trine::run {
std::span<const EmbeddedFile> embedded_accuracy();
}

using namespace trine;

namespace {

struct Timed {
  double seconds = 1e9;
  sim::Timing timing;
};

Timed least_of(int rounds, const arch::Program& program, const arch::Chip& chip, bool jump) {
  sim::TimeOptions options;
  options.jump = jump;
  options.events_max = 0;
  Timed best;
  for (int i = 0; i < rounds; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    auto timing = sim::time_program(program, chip, options);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (!timing) std::fprintf(stderr, "%s\n", timing.error().text().c_str()), std::exit(1);
    if (seconds < best.seconds) best = {seconds, std::move(*timing)};
  }
  return best;
}

// Five engines that work for themselves; `times` rounds of eight instructions each.
std::string endless(int64_t times) {
  std::string text = "program endless\ntensor w sbuf f32[128,128] at 0:0\ntensor acc psum f32[128,512] at 0:0\n";
  for (int i = 0; i < 4; ++i) text += cat("tensor t", i, " sbuf f32[128,512] at 0:", 512 + 2048 * i, "\n");
  const std::string bodies[] = {"nc_matmul dst=acc stationary=w moving=t0", "tensor_copy dst=t1 src=t0",
                                "activation dst=t2 data=t0 op=exp", "memset dst=t3 value=0"};
  const std::string engines[] = {"tensor", "vector", "scalar", "gpsimd"};
  for (int i = 0; i < 4; ++i) {
    text += cat("stream ", engines[i], "\n  loop ", times, "\n");
    for (int j = 0; j < 8; ++j) text += "    " + bodies[i] + "\n";
    text += "  end_loop\n";
  }
  return text;
}

double peak_megabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void row(const std::string& name, const Timed& t) {
  std::printf("%-34s %12s instructions  %9.4f s  %8.2f M/s\n", name.c_str(), with_commas(t.timing.instructions).c_str(),
              t.seconds, static_cast<double>(t.timing.instructions) / t.seconds / 1e6);
}

}  // namespace

int main() {
  const arch::Chip& chip = **arch::find_chip("trn2");
  for (const EmbeddedFile& f : run::embedded_accuracy()) {
    if (!f.name.starts_with("matmul_")) continue;
    const auto program = arch::assemble(f.text, f.name);
    row(std::string(f.name) + ", walked", least_of(7, *program, chip, false));
    row(std::string(f.name) + ", jumped", least_of(7, *program, chip, true));
  }
  const auto long_program = arch::assemble(endless(50'000'000 / 32), "endless");
  row("50 million in loops, walked", least_of(1, *long_program, chip, false));
  row("50 million in loops, jumped", least_of(3, *long_program, chip, true));
  std::printf("peak memory of this process: %.0f MB\n", peak_megabytes());
}
