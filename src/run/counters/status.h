// NRT_STATUS: what the runtime says of a run, one row per code, and the names under which monitors count it.
// Codes and names are libnrt's; which error class a code belongs to is ours where Neuron's pages are
// silent.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace trine::run {

enum class Status : uint8_t {  // positions in the table
  success,
  failure,
  invalid,
  invalid_handle,
  resource,
  timeout,
  hw_error,
  queue_full,
  load_not_enough_nc,
  unsupported_neff_version,
  exec_unit_unrecoverable,
  exec_bad_input,
  exec_completed_with_num_err,
  exec_completed_with_err,
  exec_nc_busy,
  exec_oob,
  exec_hw_err_collectives,
  exec_hw_err_hbm_ue,
  exec_hw_err_nc_ue,
  exec_hw_err_dma_abort,
  exec_sw_nq_overflow,
  exec_hw_err_repairable_hbm_ue,
  network_proxy_failure,
  count,
};
inline constexpr size_t kStatuses = static_cast<size_t>(Status::count);

struct StatusRow {
  int code;
  std::string_view name;     // "NRT_TIMEOUT"
  std::string_view summary;  // the key of execution_summary
  std::string_view error;    // the key of error_summary; empty: no error
  std::string_view sysfs;    // the folder under stats/status
};
std::span<const StatusRow, kStatuses> status_rows();
const StatusRow& row_of(Status status);
Status status_of(Code code);             // of a run that ended with such an error
std::string status_text(Status status);  // "NRT_TIMEOUT (5)"

}  // namespace trine::run
