// Forward: what a tensor_scalar makes for the very next tensor_tensor, and for nobody else, goes there through PSUM. Of
// two inputs in SBUF the vector engine of NeuronCore-v2 reads one after the other, an input in PSUM comes beside the
// other. Neuron's compiler does this: the profile of an AdamW kernel without a tile in PSUM counts three writes to PSUM
// a tile, as many as it has such pairs.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

// True when a tile was moved.
bool forward_through_psum(Kernel& kernel);

}  // namespace trine::compile
