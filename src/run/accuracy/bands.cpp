// Quantiles of the residuals; see bands.h.
#include "run/accuracy/bands.h"

#include <algorithm>
#include <vector>

#include "base/embedded.h"
#include "base/format/json.h"

namespace trine::run {

std::span<const EmbeddedFile> embedded_accuracy();  // written by the build

namespace {

constexpr size_t kRowsMin = 5;

std::vector<Residual> read_residuals() {
  std::vector<Residual> out;
  for (const EmbeddedFile& file : embedded_accuracy()) {
    if (file.name != "residuals.json") continue;
    const auto json = parse_json(file.text, file.name);
    CHECK(json.has_value(), "residuals.json is written by trine itself");
    for (const Json& row : (*json).find("rows")->items())
      out.push_back({row.find("bound")->string(), row.find("ratio")->number()});
  }
  return out;
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * static_cast<double>(sorted.size() - 1);
  const size_t i = static_cast<size_t>(at);
  const double rest = at - static_cast<double>(i);
  return i + 1 < sorted.size() ? sorted[i] * (1 - rest) + sorted[i + 1] * rest : sorted[i];
}

}  // namespace

Band band_of(Bound bound) {
  static const std::vector<Residual> all = read_residuals();
  return band_of(bound, all);
}

Band band_of(Bound bound, std::span<const Residual> all) {
  std::vector<double> ratios;
  for (const auto& r : all)
    if (r.bound == name(bound)) ratios.push_back(r.ratio);
  if (ratios.size() < kRowsMin) {
    ratios.clear();
    for (const auto& r : all)
      if (r.bound != name(Bound::collective)) ratios.push_back(r.ratio);
  }
  if (ratios.empty()) return {};
  std::sort(ratios.begin(), ratios.end());
  return {std::min(1.0, quantile(ratios, 0.05)), std::max(1.0, quantile(ratios, 0.95)),
          static_cast<int>(ratios.size())};
}

}  // namespace trine::run
