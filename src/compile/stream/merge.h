// Merge: what a kernel of NKI's functional dialect loads or computes again from the same is made once, as Neuron's
// tensorizer does by moving it out of loops (NeuronLICM) and by value numbering (NeuronValueNumbering). All tiles that
// a line would then keep at once must fit into SBUF; else the line stays as it was written. Loads and transposes are
// made once in all loops; what is computed only where the line made the same just before.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

void merge_equal(Kernel& kernel);

}  // namespace trine::compile
