// How fast vector instructions run through the exact driver, against a copy in host memory: bytes read and written a
// second, 128×4096 tiles of f32 (2 MiB each) and bf16, one host thread, races unchecked. One line per instruction.
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "arch/asm/asm.h"
#include "base/text.h"
#include "run/drivers/exact/exact.h"

namespace trine {
namespace {

constexpr int64_t kColumns = 4096, kTimes = 100;
constexpr double kMinSeconds = 0.2;

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double copy_gb_per_s() {
  std::vector<char> from(128 << 20, 1), to(from.size());
  double best = 0;
  for (int i = 0; i < 5; ++i) {
    const double start = seconds();
    std::memcpy(to.data(), from.data(), from.size());
    best = std::max(best, 2.0 * static_cast<double>(from.size()) / (seconds() - start) * 1e-9);
  }
  return to.back() ? best : 0;
}

struct Case {
  std::string_view insn;
  int tiles;  // read and written
};

constexpr Case kCases[] = {
    {"tensor_copy dst=c src=a", 2},
    {"memset dst=c value=1", 1},
    {"tensor_tensor dst=c data1=a data2=b op=add", 3},
    {"tensor_tensor dst=a data1=a data2=b op=max", 3},
    {"tensor_scalar dst=c data=a operand0=2 op0=multiply operand1=1 op1=add", 2},
    {"scalar_tensor_tensor dst=c data=a operand0=1 operand1=b op0=subtract op1=multiply", 3},
    {"reciprocal dst=c data=a", 2},
    {"tensor_reduce dst=r data=a op=max", 1},
    {"tensor_reduce dst=r data=a op=add", 1},
};

double run_seconds(const Case& c, Dtype dtype, int64_t times) {
  std::string text = "program elementwise\n";
  for (const char* name : {"a", "b", "c"})
    text += cat("tensor ", name, " sbuf ", row(dtype).name, "[128,", kColumns, "]\n");
  text +=
      cat("tensor r sbuf ", row(dtype).name, "[128,1]\nstream vector\n  memset dst=a value=1\n  memset dst=b value=2\n",
          "  loop ", times, "\n    ", c.insn, "\n  end_loop\n");
  const auto program = arch::assemble(text, "bench");
  const auto chip = arch::find_chip("trn3");
  if (!program || !chip) return 0;
  const double start = seconds();
  const auto result = run::run_exact(*program, **chip, {}, {.check_races = false});
  const double spent = seconds() - start;
  return result && result->findings.empty() ? spent : 0;
}

void measure(const Case& c, Dtype dtype, double copy) {
  double spent = 0;
  int64_t times = 0;
  while (spent < kMinSeconds) {  // the difference leaves out the start
    const double more = run_seconds(c, dtype, kTimes + 1) - run_seconds(c, dtype, 1);
    if (more <= 0) break;
    spent += more;
    times += kTimes;
  }
  const double bytes = static_cast<double>(128 * kColumns * times) * bits(dtype) / 8 * c.tiles;
  const double rate = spent > 0 ? bytes / spent * 1e-9 : 0;
  std::printf("exact_elementwise %-5s %6.1f GB/s  %4.0f %% of a copy (%.1f)  %s\n",
              std::string(row(dtype).name).c_str(), rate, 100 * rate / copy, copy, std::string(c.insn).c_str());
}

}  // namespace
}  // namespace trine

int main() {
  using namespace trine;
  const double copy = copy_gb_per_s();
  for (const Dtype d : {Dtype::f32, Dtype::bf16})
    for (const Case& c : kCases) measure(c, d, copy);
}
