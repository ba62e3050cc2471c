// Where a rank's process is, for others of the job: whether they share memory with it, and how they reach it.
#pragma once

#include <string>

#include "base/result.h"

namespace trine::api::neuron {

// Equal for processes that see each other's numbers and networks: containers and network namespaces are hosts.
std::string host_name();

// This host's IP address towards the job's others: of the interface that CCOM_SOCKET_IFNAME or GLOO_SOCKET_IFNAME
// names, else of the one that leads to MASTER_ADDR; loopback where neither is set.
Result<std::string> host_address();

}  // namespace trine::api::neuron
