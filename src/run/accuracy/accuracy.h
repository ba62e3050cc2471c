// Accuracy: every published measurement we hold (accuracy/measurements.json), what we predict for it, and the error.
// docs/accuracy.md and `trine accuracy` show the same rows; bands.h takes its residuals from them.
#pragma once

#include <string>
#include <vector>

#include "base/format/json.h"
#include "base/result.h"
#include "run/report/report.h"

namespace trine::run {

struct AccuracyRow {
  std::string id, kind, instance, metric, unit, source,
      role;  // "check", "input" where a chip number came from it, or "gate" where `measured` is an upper bound
  std::string note = {};  // why it is off, where it is
  Bound bound = Bound::tensor;
  double predicted = 0, measured = 0;
  double error_pct() const { return measured != 0 ? 100 * (predicted / measured - 1) : 0; }
  bool is_share() const { return unit == "%"; }  // then points matter, not per cent
};

// `kernels`: a folder with the program of each kernel as NAME.trine (tests/accuracy.py traces them); without it the
// rows that need one are left out.
Result<std::vector<AccuracyRow>> accuracy(const std::string& kernels = {});

Json accuracy_json(const std::vector<AccuracyRow>& rows);
std::string accuracy_text(const std::vector<AccuracyRow>& rows);
std::string accuracy_markdown(const std::vector<AccuracyRow>& rows);  // docs/accuracy.md
std::string residuals_json(const std::vector<AccuracyRow>& rows);     // accuracy/residuals.json

}  // namespace trine::run
