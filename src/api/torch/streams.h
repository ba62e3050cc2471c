// Streams as numbers: each thread has a current one per device. Work has run when its call returns, or is recorded in
// order, so no stream is ever behind another; what runs beside the ops (collectives) is waited for by its own handle.
#pragma once

#include "api/torch/aten.h"

namespace trine::api::neuron {

c10::Stream current_stream(c10::Device device);
c10::Stream exchange_stream(c10::Stream stream);  // the one before
c10::Stream new_stream(c10::Device device);

}  // namespace trine::api::neuron
