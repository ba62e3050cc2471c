// Rows at which the program's cores have a rendezvous: exchanges and collectives. The driver runs exec once, when every
// core has come to it, and gives all their calls in Machine::rendezvous; a core alone is a group of one.
#pragma once

#include "arch/call.h"
#include "arch/chips/chip.h"
#include "arch/row.h"

namespace trine::arch {

void barrier(Core& c, const Call& i);
void exchange(Core& c, const Call& i);
void collective(Core& c, const Call& i);
void collective_v(Core& c, const Call& i);
Result<void> barrier_check(const Chip& k, const Call& i);
Result<void> exchange_check(const Chip& k, const Call& i);
Result<void> collective_check(const Chip& k, const Call& i);
Result<void> collective_v_check(const Chip& k, const Call& i);

}  // namespace trine::arch
