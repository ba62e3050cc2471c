// The table of status codes; see status.h.
#include "run/counters/status.h"

#include "base/text.h"

namespace trine::run {

namespace {

constexpr StatusRow kRows[kStatuses] = {
    {0, "NRT_SUCCESS", "completed", "", "success"},
    {1, "NRT_FAILURE", "completed_with_err", "generic", "failure"},
    {2, "NRT_INVALID", "incorrect_input", "model", "invalid_error"},
    {3, "NRT_INVALID_HANDLE", "incorrect_input", "model", "invalid_error"},
    {4, "NRT_RESOURCE", "failed_to_queue", "runtime", "resource_error"},
    {5, "NRT_TIMEOUT", "timed_out", "runtime", "timeout"},
    {6, "NRT_HW_ERROR", "completed_with_err", "hardware", "hw_error"},
    {7, "NRT_QUEUE_FULL", "failed_to_queue", "transient", "infer_failed_to_queue"},
    {9, "NRT_LOAD_NOT_ENOUGH_NC", "failed_to_queue", "runtime", "resource_nc_error"},
    {10, "NRT_UNSUPPORTED_NEFF_VERSION", "incorrect_input", "model", "unsupported_neff_version"},
    {101, "NRT_EXEC_UNIT_UNRECOVERABLE", "completed_with_err", "hardware", "hw_error"},
    {1002, "NRT_EXEC_BAD_INPUT", "incorrect_input", "model", "exec_bad_input"},
    {1003, "NRT_EXEC_COMPLETED_WITH_NUM_ERR", "completed_with_num_err", "numerical", "infer_completed_with_num_error"},
    {1004, "NRT_EXEC_COMPLETED_WITH_ERR", "completed_with_err", "generic", "infer_completed_with_error"},
    {1005, "NRT_EXEC_NC_BUSY", "failed_to_queue", "transient", "infer_failed_to_queue"},
    {1006, "NRT_EXEC_OOB", "completed_with_err", "model", "oob_error"},
    {1200, "NRT_EXEC_HW_ERR_COLLECTIVES", "completed_with_err", "hardware", "hw_error"},
    {1201, "NRT_EXEC_HW_ERR_HBM_UE", "completed_with_err", "hardware", "hw_error"},
    {1202, "NRT_EXEC_HW_ERR_NC_UE", "completed_with_err", "hardware", "hw_error"},
    {1203, "NRT_EXEC_HW_ERR_DMA_ABORT", "completed_with_err", "hardware", "hw_error"},
    {1204, "NRT_EXEC_SW_NQ_OVERFLOW", "completed_with_err", "runtime", "generic_error"},
    {1205, "NRT_EXEC_HW_ERR_REPAIRABLE_HBM_UE", "completed_with_err", "hardware", "hw_error"},
    {1206, "NRT_NETWORK_PROXY_FAILURE", "completed_with_err", "runtime", "generic_error"},
};

}  // namespace

std::span<const StatusRow, kStatuses> status_rows() { return kRows; }
const StatusRow& row_of(Status status) { return kRows[static_cast<size_t>(status)]; }

Status status_of(Code code) {
  switch (code) {
    case Code::invalid:
      return Status::exec_bad_input;
    case Code::out_of_memory:
      return Status::resource;
    case Code::out_of_range:
      return Status::exec_oob;
    case Code::cancelled:
      return Status::timeout;
    default:
      return Status::failure;
  }
}

std::string status_text(Status status) { return cat(row_of(status).name, " (", row_of(status).code, ")"); }

}  // namespace trine::run
