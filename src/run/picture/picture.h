// Picture: a timed program as one drawing: a lane per engine and DMA queue, how busy each is over time, and what it
// waits for. SVG or PNG from the same shapes. Every instruction by itself is profile/trace.h's business.
#pragma once

#include <string>

#include "arch/instances/instance.h"
#include "arch/program/program.h"
#include "base/result.h"
#include "run/picture/canvas.h"
#include "run/picture/record.h"
#include "run/report/report.h"
#include "sim/core/timing.h"

namespace trine::run {

inline constexpr int64_t kPictureEventsMax = 50'000'000;  // walked one by one; ten seconds
inline constexpr size_t kPictureBins = 1000;

Canvas draw(const arch::Program& program, const Report& report, const sim::Timing& timing, const Occupancy& seen);

struct SavedPicture {
  bool whole = true;
  double begin_ns = 0, end_ns = 0;  // what part of the program it shows
};

// Times the program again without jumping and writes .svg or .png. Of a program of more than kPictureEventsMax events
// and no window the beginning is drawn.
Result<SavedPicture> save_picture(const std::string& path, const arch::Program& program, const arch::Instance& instance,
                                  sim::TimeOptions options, const sim::Timing& timed, const Report& report);

}  // namespace trine::run
