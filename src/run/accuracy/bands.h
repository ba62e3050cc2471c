// The band of a prediction: where nine in ten measurements of programs of its kind lay that the model was not built on.
// `make accuracy` writes them (accuracy/bands.json, by python/trine/accuracy); nothing is computed here.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "run/report/report.h"

namespace trine::run {

struct Band {
  double low = 1, high = 1;  // measured over predicted
  int rows = 0;              // measurements behind it
  std::string from = {};     // which they are, and why not its own class's where they are not
};

// By what bounds the program and the generation of the chip's core.
Band band_of(Bound bound, const arch::Chip& chip);

// A data file of this folder, by name: measurements.json, programs.json, bands.json, the programs in assembly.
Result<std::string_view> accuracy_file(std::string_view name);

}  // namespace trine::run
