// Join: loops of NKI's functional dialect that pass more to each other than SBUF holds become one, as Neuron's
// tensorizer does (LoopFusion): each result that leaves for HBM is preceded by what it needs and nobody has made
// yet.
#pragma once

#include "compile/stream/kernel.h"

namespace trine::compile {

// Changes nothing where SBUF holds all, or the other order needs as much.
void join_loops(Kernel& kernel);

}  // namespace trine::compile
