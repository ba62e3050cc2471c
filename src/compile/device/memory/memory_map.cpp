// Live ranges from the recorded instructions, and the map as text and as a picture; see memory_map.h.
#include "compile/device/memory/memory_map.h"

#include <algorithm>
#include <charconv>

#include "base/tensor.h"
#include "base/text.h"

namespace trine::compile::device {

namespace {

constexpr size_t kRowsShown = 12;
constexpr std::string_view kColours[] = {"#4477aa", "#66ccee", "#228833", "#ccbb44", "#ee6677"};

bool is_weight(std::string_view name, const std::vector<bool>& weights) {
  size_t i = 0;
  if (!name.starts_with("arg")) return false;
  const auto [end, error] = std::from_chars(name.data() + 3, name.data() + name.size(), i);
  return error == std::errc{} && end == name.data() + name.size() && i < weights.size() && weights[i];
}

MemoryMap::Kind kind_of(const arch::Tensor& t, const std::vector<bool>& weights) {
  if (t.kind == arch::TensorKind::input)
    return is_weight(t.name, weights) ? MemoryMap::Kind::weights : MemoryMap::Kind::inputs;
  if (t.kind == arch::TensorKind::output) return MemoryMap::Kind::outputs;
  return t.kind == arch::TensorKind::constant ? MemoryMap::Kind::constants : MemoryMap::Kind::scratch;
}

std::string size_text(int64_t n) {
  if (n >= 1'000'000'000) return cat(fixed(double(n) / 1e9, 2), " GB");
  if (n >= 1'000'000) return cat(fixed(double(n) / 1e6, 1), " MB");
  return cat(fixed(double(n) / 1e3, 1), " kB");
}

}  // namespace

int64_t MemoryMap::bytes() const {
  int64_t sum = 0;
  for (const Row& r : rows) sum += r.bytes;
  return sum;
}
int64_t MemoryMap::bytes(Kind kind) const {
  int64_t sum = 0;
  for (const Row& r : rows) sum += r.kind == kind ? r.bytes : 0;
  return sum;
}
int64_t MemoryMap::bytes_at(double time) const {
  int64_t sum = 0;
  for (const Row& r : rows) sum += r.begin <= time && time <= r.end ? r.bytes : 0;
  return sum;
}
double MemoryMap::peak() const {
  double best = 0;
  int64_t most = -1;
  for (const Row& r : rows)
    if (const int64_t now = bytes_at(r.begin); now > most) most = now, best = r.begin;
  return best;
}

std::string MemoryMap::text() const {
  const double at = peak();
  std::string out = cat("the program keeps ", size_text(bytes()), " in HBM; a core has ", size_text(room), "\n");
  for (size_t k = 0; k < std::size(kMemoryKinds); ++k)
    if (const int64_t n = bytes(Kind(k)); n > 0) append_text(out, cat("  ", kMemoryKinds[k], " ", size_text(n)));
  append_text(
      out, cat("\nin use at the peak, ", fixed(100 * at, 0), " % into the program: ", size_text(bytes_at(at)), "\n"));
  std::vector<std::vector<std::string>> table;
  int64_t rest = 0, others = 0;
  for (const Row& r : rows) {
    if (r.begin > at || r.end < at) continue;
    if (table.size() == kRowsShown) {
      rest += r.bytes, ++others;
      continue;
    }
    table.push_back({cat("  ", r.name), r.type, std::string(kMemoryKinds[size_t(r.kind)]), size_text(r.bytes),
                     cat(fixed(100 * r.begin, 0), "–", fixed(100 * r.end, 0), " %")});
  }
  append_text(out, columns(table, "00010"));
  if (others) append_text(out, cat("  and ", others, " more, ", size_text(rest)));
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

// Time from left to right, bytes upwards: every tensor a box from its first use to its last, the long-lived at the
// bottom.
std::string MemoryMap::svg() const {
  constexpr double kWide = 720, kHigh = 360, kLeft = 90, kTop = 40;
  std::vector<Row> order = rows;
  std::stable_sort(order.begin(), order.end(), [](const Row& a, const Row& b) {
    return a.kind != b.kind ? a.kind < b.kind : a.end - a.begin > b.end - b.begin;
  });
  const double top = double(std::max(bytes(), room));
  const auto y_of = [&](double n) { return kTop + kHigh * (1 - n / top); };
  std::string out =
      cat("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"980\" height=\"460\" font-family=\"sans-serif\" "
          "font-size=\"12\">\n",
          "<text x=\"8\" y=\"20\" font-size=\"14\">HBM over the program: ", size_text(bytes()), " of ", size_text(room),
          "</text>\n");
  double at = 0;
  for (const Row& r : order) {
    const double x = kLeft + kWide * r.begin, wide = std::max(1.0, kWide * (r.end - r.begin));
    const double y = y_of(at + double(r.bytes)), high = y_of(at) - y;
    at += double(r.bytes);
    if (high < 0.2) continue;
    append_text(out, cat("<rect x=\"", fixed(x, 1), "\" y=\"", fixed(y, 1), "\" width=\"", fixed(wide, 1),
                         "\" height=\"", fixed(high, 1), "\" fill=\"", kColours[size_t(r.kind)],
                         "\" stroke=\"#fff\" stroke-width=\"0.3\"><title>", r.name, " ", r.type, ", ",
                         size_text(r.bytes), "</title></rect>\n"));
    if (high > 13)
      append_text(out, cat("<text x=\"", fixed(x + 4, 1), "\" y=\"", fixed(y + high / 2 + 4, 1), "\" fill=\"#fff\">",
                           r.name, " ", r.type, " ", size_text(r.bytes), "</text>\n"));
  }
  const std::string line = fixed(y_of(double(room)), 1);
  append_text(
      out, cat("<path d=\"M", kLeft, " ", line, "H", kLeft + kWide, "\" stroke=\"#222\" stroke-dasharray=\"6 3\"/>\n",
               "<text x=\"8\" y=\"", line, "\">", size_text(room), "</text>\n"));
  const std::string x_peak = fixed(kLeft + kWide * peak(), 1);
  append_text(out, cat("<path d=\"M", x_peak, " ", kTop, "V", kTop + kHigh, "\" stroke=\"#222\"/>\n<text x=\"", x_peak,
                       "\" y=\"", kTop + kHigh + 16, "\">peak, ", size_text(bytes_at(peak())), " in use</text>\n"));
  for (size_t k = 0; k < std::size(kMemoryKinds); ++k)
    append_text(out, cat("<rect x=\"830\" y=\"", 60 + 22 * k, "\" width=\"12\" height=\"12\" fill=\"", kColours[k],
                         "\"/><text x=\"848\" y=\"", 70 + 22 * k, "\">", kMemoryKinds[k], " ",
                         size_text(bytes(Kind(k))), "</text>\n"));
  return out + "</svg>\n";
}

MemoryMap memory_map(const arch::Kernel& kernel, const std::vector<bool>& weights, int64_t room) {
  const arch::Program& p = kernel.program();
  constexpr int64_t kNever = -1;
  std::vector<std::pair<int64_t, int64_t>> used(p.tensors.size(), {kNever, kNever});
  for (size_t w = 0; w < kernel.insns.size(); ++w) {
    const arch::KernelInsn& insn = kernel.insns[w];
    for (size_t o = 0; o < insn.info->slots.size(); ++o) {
      const arch::Operand& operand = p.operands[insn.operand + o];
      if (operand.kind != arch::OperandKind::tile) continue;
      auto& [first, last] = used[operand.tensor];
      if (first == kNever) first = int64_t(w);
      last = int64_t(w);
    }
  }
  MemoryMap out{.room = room};
  const double span = std::max<double>(1, double(kernel.insns.size()) - 1);
  for (size_t i = 0; i < p.tensors.size(); ++i) {
    const arch::Tensor& t = p.tensors[i];
    if (t.space != arch::Space::hbm || t.alias >= 0) continue;
    MemoryMap::Row r{t.name, shape_text(t.dtype, t.shape), kind_of(t, weights), arch::tensor_bytes(t)};
    if (r.kind == MemoryMap::Kind::scratch && used[i].first != kNever) {
      r.begin = double(used[i].first) / span;
      r.end = double(used[i].second) / span;
    }
    out.rows.push_back(std::move(r));
  }
  std::stable_sort(out.rows.begin(), out.rows.end(),
                   [](const MemoryMap::Row& a, const MemoryMap::Row& b) { return a.bytes > b.bytes; });
  return out;
}

}  // namespace trine::compile::device
