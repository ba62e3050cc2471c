// What was allocated and given back, and from which lines of Python, while somebody records it:
// torch.neuron.memory._snapshot.
#pragma once

#include <pybind11/pybind11.h>

#include <cstddef>

namespace trine::api::neuron {

void record_history(bool is_on, bool with_frames, size_t entries_max);  // on: starts anew
void note_allocated(int device, const void* address, size_t bytes);
void note_released(const void* address);

// As torch.cuda.memory._snapshot gives it: segments of what lives, and a trace per device.
pybind11::dict history(int device_count);

}  // namespace trine::api::neuron
