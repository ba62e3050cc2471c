// A training step asked for and answered as data: what Python hands to sim/cluster and gets back. Names stand for
// numbers; a question that does not fit together is an error that says where.
#pragma once

#include "base/format/json.h"
#include "sim/cluster/pipeline.h"

namespace trine::run {

// {names, stages: [{forward: [[piece…]…], backward, backward_last?, begin?, end?}], send: piece, batches,
// packet_bytes?}. piece: {what, ns, lane?, uses?: {dma, link, network, hbm}, group?: "tensor" | "data", after?: [n…],
// after_all?}.
Result<sim::Pipeline> pipeline_of(const Json& json);

// {ns, stages: [{count, parts: [{spent, what, stage?, ns}], collectives: {what: ns}, hidden_ns, in_flight}], spans?}.
Json json_of(const sim::Pipeline& pipeline, const sim::StepTime& time);

}  // namespace trine::run
