// Collectives on one core's program: the value waits in HBM, where the collective's own engines take and leave it.
// Their time is not the core's: partition/collectives_of.h lists them and sim/cluster times them.
#pragma once

#include "compile/device/memory/store.h"

namespace trine::compile::device {

// The result stands where the input was stored: on a group of one core they are the same.
void lower_collective(Recorder& rec, Store& store, const ir::Node& node);
// partition_id and replica_id: an input of the program, of that name.
void lower_rank(Recorder& rec, Store& store, const ir::Node& node);

}  // namespace trine::compile::device
