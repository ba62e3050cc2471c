// What collectives share: their type rules, and their meaning for a program alone on one device. The meaning with many
// devices is a collective step's (run/); a program of one device has groups of one, and moves nothing.
#pragma once

#include "ops/axes.h"

namespace trine::ops {

int64_t group_size(const ir::Attrs& attrs);  // devices that act together; at least 1

// Results as the inputs, with dim `axis` multiplied and then divided.
Result<std::vector<ir::Type>> collective_types(const Call& call, int64_t axis, int64_t times, int64_t parts);
Result<std::vector<ir::Type>> same_as_inputs(const Call& call);  // one result per input, of its type

// Of a whole value and a device's part of it: the type that is given, of the input's rank. Only the partitioner can say
// what it means.
Result<std::vector<ir::Type>> part_type(const Call& call);
Result<void> not_partitioned(const Eval& e);

// A number of this device, u32[]: 0 alone.
Result<std::vector<ir::Type>> device_number_type(const Call& call);
Result<void> number_alone(const Eval& e);

// Results are the inputs; an error where groups are larger than one device.
Result<void> copy_alone(const Eval& e);

}  // namespace trine::ops
