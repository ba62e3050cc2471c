// Attention of a few queries, as one more token asks for it: keys lie on partitions, so that scores and weights of all
// heads of all sequences are a few columns each, and softmax is over partitions.
#pragma once

#include "compile/device/multiplies/dot.h"
#include "compile/graph/attention.h"

namespace trine::compile::device {

bool takes_few(const AttentionMatch& match);

void lower_few(Recorder& rec, Store& store, const AttentionMatch& match, const DotPolicy& policy);

}  // namespace trine::compile::device
