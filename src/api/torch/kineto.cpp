// torch.profiler's device: what ran on `neuron` as rows of kernels, each as long as it takes on the chip. Kineto asks
// while it profiles; activities PrivateUse1 (and CPU beside it) are what users write. A row begins where the host began
// it, or where the one before it ends.
#define FMT_HEADER_ONLY  // torch shows no functions of its own copy
#define USE_KINETO
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>

#include <algorithm>
#include <vector>

#include "api/chip_time.h"
#include "api/torch/backend.h"
#include "run/profile/activity.h"

namespace trine::api::neuron {

namespace {

using libkineto::ActivityType;

constexpr int64_t kDevice = 0;

class Session : public libkineto::IActivityProfilerSession {
 public:
  void start() override {
    run::ActivityRecord::process().start();
    status_ = libkineto::TraceStatus::RECORDING;
  }
  void stop() override {
    without_python([] { wait_for(last_tasks(0, INT64_MAX)); });  // what was issued is part of it
    activities_ = run::ActivityRecord::process().stop();
    status_ = libkineto::TraceStatus::PROCESSING;
  }
  std::vector<std::string> errors() override { return {}; }
  void processTrace(libkineto::ActivityLogger& logger) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(0, 0, "neuron");
    buffer_->gpuOpCount = int(activities_.size());
    ChipTimes times;
    int64_t free_ns = 0, number = 0;
    for (const run::Activity& a : activities_) {
      const ChipTime* const chip = a.source ? times.of(*a.source) : nullptr;
      const int64_t begin = std::max(free_ns, a.start_ns), took = chip ? (chip->ps + 500) / 1000 : 0;
      buffer_->emplace_activity(buffer_->span, ActivityType::CONCURRENT_KERNEL, *a.program);
      libkineto::GenericTraceActivity& row = *buffer_->activities.back();
      row.startTime = begin, row.endTime = begin + took;
      row.id = int32_t(++number);
      row.device = int32_t(a.device), row.resource = 0;
      row.addMetadata("chip_ns", took);
      row.addMetadata("host_ns", a.took_ns);
      if (!chip) row.addMetadataQuoted("note", "no time on the chip");
      free_ns = begin + took;
      logger.handleActivity(row);
    }
  }
  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    return std::make_unique<libkineto::DeviceInfo>(libkineto::DeviceInfo{kDevice, 1, "neuron", "virtual NeuronCore"});
  }
  std::vector<libkineto::ResourceInfo> getResourceInfos() override { return {{0, 0, kDevice, "programs"}}; }
  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

 private:
  std::vector<run::Activity> activities_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
};

class NeuronProfiler : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return kinds_; }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>&,
                                                                 const libkineto::Config&) override {
    return std::make_unique<Session>();
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t, int64_t, const std::set<ActivityType>& kinds,
                                                                 const libkineto::Config& config) override {
    return configure(kinds, config);
  }

 private:
  std::string name_ = "neuron";
  std::set<ActivityType> kinds_ = {ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET};
};

REGISTER_PRIVATEUSE1_PROFILER(NeuronProfiler);

}  // namespace

}  // namespace trine::api::neuron
