// Attention on the device: scores of a tile of queries, softmax and the weighted values without leaving the chip.
#pragma once

#include "compile/device/multiplies/dot.h"
#include "compile/graph/attention.h"

namespace trine::compile::device {

// Does the device compute this one as a whole? Others are done by their parts. A window is not read from memory.
bool takes_attention(AttentionMatch& match);
// In tiles of queries, and its gradient likewise?
bool takes_gradient(const AttentionMatch& match);

void lower_attention(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy);

}  // namespace trine::compile::device
