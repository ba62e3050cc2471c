// How fast nc_matmul runs through its row, against what this core can do in registers: 128×128 stationary, 128×512
// moving, one host thread. Prints one line per dtype.
#include <chrono>
#include <cstdio>
#include <vector>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "arch/chips/chip.h"
#include "arch/core.h"
#include "arch/row.h"

namespace trine::arch {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) double peak_gflops() {
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return 0;
  constexpr int kChains = 10;
  __m256 sum[kChains];
  for (auto& s : sum) s = _mm256_set1_ps(1);
  const __m256 x = _mm256_set1_ps(0.999f);
  constexpr int64_t kSteps = 50'000'000;
  const double start = seconds();
  for (int64_t i = 0; i < kSteps; ++i)
    for (auto& s : sum) s = _mm256_fmadd_ps(s, x, x);
  const double spent = seconds() - start;
  float sink[8];
  __m256 all = sum[0];
  for (auto& s : sum) all = _mm256_add_ps(all, s);
  _mm256_storeu_ps(sink, all);
  return sink[0] > 0 ? 2.0 * 8 * kChains * kSteps / spent * 1e-9 : 0;
}
#else
double peak_gflops() { return 0; }
#endif

Program one_matmul(Dtype dtype) {
  Program p;
  const auto add = [&](const char* name, Space space, Dtype d, int64_t columns, int64_t address) {
    Tensor t;
    t.name = name;
    t.space = space;
    t.dtype = d;
    t.shape = {128, columns};
    t.address = address;
    Pattern a;
    a.dtype = d;
    a.rank = 1;
    a.partitions = 128;
    a.dims[0] = {1, static_cast<uint32_t>(columns)};
    Operand o;
    o.kind = OperandKind::tile;
    o.tensor = o.pattern = static_cast<uint32_t>(p.tensors.size());
    p.tensors.push_back(t);
    p.patterns.push_back(a);
    p.operands.push_back(o);
  };
  add("dst", Space::psum, Dtype::f32, 512, 0);
  add("stationary", Space::sbuf, dtype, 128, 0);
  add("moving", Space::sbuf, dtype, 512, 1024);
  for (const AttrSlot& a : row_by_name("nc_matmul")->attrs) p.attrs.push_back(a.initial);
  return p;
}

void measure(Dtype dtype, double peak) {
  const Program p = one_matmul(dtype);
  Machine machine(p, {});
  Core& core = machine.cores[0];
  const RowInfo& info = *row_by_name("nc_matmul");
  Insn insn;
  insn.opcode = info.row->opcode;
  const Call call{p, *all_chips().begin(), insn, info, Engine::tensor};
  std::vector<float> ones(512, 0.5f);
  for (const char* slot : {"stationary", "moving"})
    for (int r = 0; r < 128; ++r) core.write(call.tile(slot), r, ones.data());
  constexpr double kFlops = 2.0 * 128 * 128 * 512;
  int64_t runs = 0;
  const double start = seconds();
  do {
    for (int i = 0; i < 20; ++i) info.row->exec(core, call);
    runs += 20;
  } while (seconds() - start < 1);
  const double gflops = kFlops * static_cast<double>(runs) / (seconds() - start) * 1e-9;
  std::printf("exact_matmul %-7s %7.1f GFLOP/s  %5.1f %% of this core's fma peak (%.1f)\n",
              std::string(row(dtype).name).c_str(), gflops, peak > 0 ? 100 * gflops / peak : 0, peak);
}

}  // namespace
}  // namespace trine::arch

int main() {
  using namespace trine;
  const double peak = arch::peak_gflops();
  for (Dtype d : {Dtype::f32, Dtype::bf16, Dtype::f8e5m2}) arch::measure(d, peak);
}
