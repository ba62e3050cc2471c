// Accuracy: every published measurement we hold (accuracy/measurements.json), what we predict for it, and the error.
// docs/accuracy.md and `trine accuracy` show the same rows; bands.h takes its residuals from them.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "run/report.h"

namespace trine::run {

struct AccuracyRow {
  std::string id, kind, instance, metric, unit, source,
      role;  // role: "check", or "input" where a chip number came from it
  Bound bound = Bound::tensor;
  double predicted = 0, measured = 0;
  double error_pct() const { return measured != 0 ? 100 * (predicted / measured - 1) : 0; }
  bool is_share() const { return unit == "%"; }  // then points matter, not per cent
};

Result<std::vector<AccuracyRow>> accuracy();

Json accuracy_json(const std::vector<AccuracyRow>& rows);
std::string accuracy_text(const std::vector<AccuracyRow>& rows);
std::string accuracy_markdown(const std::vector<AccuracyRow>& rows);  // docs/accuracy.md
std::string residuals_json(const std::vector<AccuracyRow>& rows);     // accuracy/residuals.json

}  // namespace trine::run
