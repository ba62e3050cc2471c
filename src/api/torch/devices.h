// The virtual devices that PyTorch's `neuron` stands for: one client for the process, made when first asked for.
// Knows nothing of torch. A thread has a current device, as torch wants it.
#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "run/devices/client.h"
#include "run/drivers/native/direct.h"

namespace trine::api::neuron {

Result<run::Client*> client();
int device_count() noexcept;  // 0 where there is no client
int current_device() noexcept;
void set_current_device(int index) noexcept;
Result<run::Device*> device(int index);

// Bytes in a device's HBM share, for as long as the pointer lives; an error where they do not fit. What they are is
// for the list that such an error gives.
Result<std::shared_ptr<run::Storage>> allocate(int index, size_t bytes, run::Allocation what);

// A run that counts as the device's.
Result<void> run_on(int index, const run::DirectProgram& program, std::span<const void* const> inputs,
                    std::span<void* const> outputs, std::span<run::ArrayForms* const> forms);

}  // namespace trine::api::neuron
