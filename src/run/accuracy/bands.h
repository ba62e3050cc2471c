// The band of a prediction: where 90 % of our residuals lie, by what bounds the program. From the accuracy table's
// own residuals (accuracy/residuals.json, written by `make accuracy`), never from taste.
#pragma once

#include <span>
#include <string>

#include "run/report/report.h"

namespace trine::run {

struct Band {
  double low = 1, high = 1;  // measured over predicted
  int rows = 0;              // residuals behind it
};

struct Residual {
  std::string bound = {};
  double ratio = 1;  // measured over predicted
};

// With fewer than five rows of its own class, the residuals of all programs of one core count.
Band band_of(Bound bound);
Band band_of(Bound bound, std::span<const Residual> residuals);

}  // namespace trine::run
