// Several reports as one: parts that run one after the other, and a program too long to time, known from two shorter
// ones. Numbers that grow with the work are added or continued, and so are shares (MFU, MBU, busy), by the time they
// are of; memory is the largest; dollars and watts follow. What bounds the longest part, or the longer program, bounds
// the whole.
#pragma once

#include <span>

#include "run/report/report.h"

namespace trine::run {

// One after the other; at least one, all of this instance.
Report added(std::span<const Report> parts, const arch::Instance& instance);

// few + times × (more - few): each further layer, or image, adds the same.
Report extended(const Report& few, const Report& more, double times, const arch::Instance& instance);

// `count` programs, evenly from the first to the last.
Report between(const Report& first, const Report& last, double count, const arch::Instance& instance);

}  // namespace trine::run
