// Names of the closed sets in enums.h, in value order.
#include "arch/enums.h"

#include <array>

namespace trine::arch {

namespace {

using Names = std::string_view;
constexpr Names kEngines[] = {"tensor", "vector", "scalar", "gpsimd", "sync"};
constexpr Names kSpaces[] = {"hbm", "sbuf", "psum"};
constexpr Names kAlu[] = {"bypass",      "add",         "subtract",      "multiply",    "max",        "min",
                          "equal",       "not_equal",   "greater_equal", "greater",     "less_equal", "less",
                          "logical_and", "logical_or",  "logical_xor",   "power",       "abs_max",    "abs_min",
                          "abs",         "square",      "relu",          "rsqrt",       "reciprocal", "average",
                          "invert",      "bitwise_and", "bitwise_or",    "bitwise_xor", "left_shift", "right_shift"};
constexpr Names kAct[] = {"copy",
                          "abs",
                          "arctan",
                          "cos",
                          "erf",
                          "erf_dx",
                          "exp",
                          "gelu",
                          "gelu_dx",
                          "gelu_apprx_sigmoid",
                          "gelu_apprx_sigmoid_dx",
                          "gelu_apprx_tanh",
                          "log",
                          "mish",
                          "reciprocal",
                          "relu",
                          "prelu",
                          "rsqrt",
                          "sigmoid",
                          "sign",
                          "silu",
                          "silu_dx",
                          "sin",
                          "softplus",
                          "sqrt",
                          "square",
                          "tanh"};
constexpr Names kAccumulate[] = {"overwrite", "add", "first"};
constexpr Names kReduceCmd[] = {"idle", "reset", "reduce", "reset_reduce", "load_reduce"};
constexpr Names kDge[] = {"unknown", "swdge", "hwdge", "none"};
constexpr Names kOob[] = {"error", "skip"};
constexpr Names kPerf[] = {"none", "double_row"};
constexpr Names kCompare[] = {"eq", "ne", "ge", "gt", "le", "lt"};
constexpr Names kCollective[] = {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "broadcast"};

static_assert(std::size(kAlu) == static_cast<size_t>(Alu::shift_right) + 1);
static_assert(std::size(kAct) == static_cast<size_t>(Act::tanh) + 1);

constexpr EnumRow kRows[] = {
    {"engine", kEngines},        {"space", kSpaces}, {"alu", kAlu}, {"act", kAct},        {"accumulate", kAccumulate},
    {"reduce_cmd", kReduceCmd},  {"dge", kDge},      {"oob", kOob}, {"perf_mode", kPerf}, {"compare", kCompare},
    {"collective", kCollective},
};

}  // namespace

std::span<const EnumRow> enum_rows() { return kRows; }

const EnumRow* enum_by_name(std::string_view name) {
  for (const auto& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

std::string_view name(Engine e) { return kEngines[static_cast<int>(e)]; }
std::string_view name(Space s) { return kSpaces[static_cast<int>(s)]; }
std::string_view name(Alu op) { return kAlu[static_cast<int>(op)]; }
std::string_view name(Act op) { return kAct[static_cast<int>(op)]; }

std::optional<Engine> engine_by_name(std::string_view name) {
  for (int i = 0; i < kEngineCount; ++i)
    if (kEngines[i] == name) return static_cast<Engine>(i);
  return std::nullopt;
}

}  // namespace trine::arch
