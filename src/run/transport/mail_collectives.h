// Collectives of ranks on several hosts, as messages: what each rank brings goes straight to whom it is for. Of a sum
// every rank gets a share of all inputs, adds them up in the schedule's order and sends the result on, so the bits are
// those of shared memory.
#pragma once

#include "run/transport/mailbox.h"

namespace trine::run {

Result<void> run_mailed(Mailbox& mailbox, Channels& channels, const Operation& operation, uint64_t number,
                        const SumOrder* order);

}  // namespace trine::run
