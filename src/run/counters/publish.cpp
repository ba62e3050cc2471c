// Makes, fills and removes a process's page; see publish.h.
#include "run/counters/publish.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <new>
#include <thread>

#include "base/file.h"
#include "base/format/json.h"
#include "base/text.h"
#include "run/counters/read.h"

namespace trine::run {

namespace {

namespace fs = std::filesystem;
constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr size_t kPagesMax = 64;                         // of a process
constexpr size_t kExportMax = size_t{256} << 20;         // a larger program is not written out
constexpr int64_t kShortNs = 20'000, kSampleOneIn = 16;  // shorter programs are sampled

std::atomic<Page*> published[kPagesMax];  // of this process; no lock, so that a forked child can walk it

int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <size_t kSize>
void put(std::array<char, kSize>& to, std::string_view text) {
  size_t n = std::min(text.size(), kSize - 1);
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;  // whole characters
  std::memcpy(to.data(), text.data(), n);
  to[n] = 0;
}

std::string key_of(std::string_view text) {  // FNV-1a, twice
  uint64_t a = 0xcbf29ce484222325, b = 0x84222325cbf29ce4;
  for (const unsigned char c : text) a = (a ^ c) * 0x100000001b3, b = (b ^ c) * 0x9E3779B97F4A7C15, b ^= b >> 31;
  char out[32];
  std::snprintf(out, sizeof out, "%016llx%08llx", static_cast<unsigned long long>(a),
                static_cast<unsigned long long>(b >> 32));
  return out;
}

size_t rounded(size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

Result<std::shared_ptr<Page>> Page::make(const PageOptions& options) {
  if (::mkdir(options.folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(Code::io, cat("could not make the folder: ", std::strerror(errno)), options.folder);
  struct stat found{};
  if (::lstat(options.folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode) || found.st_uid != ::geteuid())
    return fail(Code::io, "expected a folder of this user", options.folder);
  remove_dead(options.folder);
  std::shared_ptr<Page> page(new Page);
  page->self_ = page;
  page->owner_ = ::getpid();
  page->faults_ = options.faults;
  for (int n = 0; n < int(kPagesMax) && page->fd_ < 0; ++n) {
    page->path_ = cat(options.folder, "/", page->owner_, ".", n);
    page->fd_ = ::open(page->path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (page->fd_ < 0 && errno != EEXIST) break;
  }
  if (page->fd_ < 0 || ::flock(page->fd_, LOCK_EX | LOCK_NB) != 0 || !page->map(options))
    return fail(Code::io, cat("could not publish counters: ", std::strerror(errno)), page->path_);
  static const bool kWatchesForks = [] {
    pthread_atfork(nullptr, nullptr, &Page::on_fork);
    std::atexit(&Page::on_exit);
    return true;
  }();
  (void)kWatchesForks;
  for (auto& slot : published) {
    Page* none = nullptr;
    if (slot.compare_exchange_strong(none, page.get())) break;
  }
  return page;
}

bool Page::map(const PageOptions& options) {
  const size_t head = 4096, core_bytes = rounded(sizeof(CoreCounters));
  core_count_ = options.cores.size();
  program_bytes_ = rounded(sizeof(ProgramCounters) + core_count_ * sizeof(ProgramCounters::PerCore));
  size_ = head + core_count_ * core_bytes + size_t(kProgramsMax) * program_bytes_;
  if (::ftruncate(fd_, off_t(size_)) != 0) return false;  // sparse: what nobody writes takes no memory
  void* const at = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (at == MAP_FAILED) return false;
  bytes_ = static_cast<char*>(at);
  auto& header = *new (bytes_) PageHeader;
  cores_ = reinterpret_cast<CoreCounters*>(bytes_ + head);
  for (size_t i = 0; i < core_count_; ++i) {
    auto& core = *new (cores_ + i) CoreCounters;
    core.id = options.cores[i].id, core.chip = options.cores[i].chip, core.on_chip = options.cores[i].on_chip;
    core.memory_limit = options.cores[i].memory_limit;
  }
  header.magic = kPageMagic, header.version = kPageVersion, header.bytes = int64_t(size_);
  header.core_offset = int64_t(head), header.core_bytes = int64_t(core_bytes), header.core_count = int64_t(core_count_);
  header.program_offset = int64_t(head + core_count_ * core_bytes), header.program_bytes = int64_t(program_bytes_);
  header.program_count = kProgramsMax;
  header.pid = owner_, header.started_ns = wall_ns(), header.lnc = options.lnc;
  put(header.instance, options.instance), put(header.library, options.library), put(header.tag, options.tag);
  put(header.command, options.command), put(header.runtime_version, options.runtime_version);
  header.ready.store(1, std::memory_order_release);
  return true;
}

Page::~Page() {
  for (auto& slot : published) {
    Page* self = this;
    slot.compare_exchange_strong(self, nullptr);
  }
  if (owner_ == ::getpid() && !path_.empty() && fd_ >= 0) remove_page(path_);
  if (bytes_) ::munmap(bytes_, size_);
  if (fd_ >= 0) ::close(fd_);
}

// The child's numbers are its own: the parent's page is replaced by memory nobody else sees, at the same address.
void Page::detach() {
  if (!bytes_) return;
  ::close(fd_);  // the lock is the parent's alone from here on
  fd_ = -1;
  ::mmap(bytes_, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
}

void Page::on_fork() {
  for (auto& slot : published)
    if (Page* const page = slot.exchange(nullptr)) page->detach();
}

void Page::on_exit() {
  for (auto& slot : published)
    if (Page* const page = slot.load(); page && page->owner_ == ::getpid()) remove_page(page->path_);
}

ProgramCounters& Page::program(uint64_t number, const std::function<CountedInfo()>& info) {
  const std::lock_guard lock(mutex_);
  ProgramCounters*& found = rows_[number];
  if (found) return *found;
  auto& header = *reinterpret_cast<PageHeader*>(bytes_);
  const auto at = size_t(std::min<int64_t>(header.programs_used.load(kRelaxed), kProgramsMax - 1));
  char* const at_row = bytes_ + header.program_offset + at * program_bytes_;
  found = reinterpret_cast<ProgramCounters*>(at_row);
  if (at < infos_.size()) return *found;  // the last row is everybody else's
  infos_.push_back(at + 1 == size_t(kProgramsMax) ? CountedInfo{.name = "(others)"} : info());
  auto& row = *new (at_row) ProgramCounters;
  const CountedInfo& is = infos_.back();
  put(row.name, is.name);
  row.devices = is.devices, row.constant_bytes = is.constant_bytes, row.arena_bytes = is.arena_bytes;
  if (!is.text) row.exported = 2;
  row.ready.store(1, std::memory_order_release);
  header.programs_used.fetch_add(1, std::memory_order_release);
  return row;
}

void Page::add_outcome(CoreCounters& core, Status status) {
  core.statuses[size_t(status)].fetch_add(1, kRelaxed);
  core.executions.fetch_add(1, kRelaxed);
  if (status != Status::success) core.failures.fetch_add(1, kRelaxed);
  core.touched.store(1, kRelaxed);
}

void Page::count_run(ProgramCounters& row, size_t at, int64_t host_ns, int64_t weight, Status status) {
  CoreCounters& core = cores_[at];
  add_outcome(core, status);
  core.busy_ns.fetch_add(host_ns * weight, kRelaxed);
  core.latency[bucket_of(host_ns)].fetch_add(uint32_t(weight), kRelaxed);
  ProgramCounters::PerCore& here = row.per_core()[at];
  if (here.runs.fetch_add(1, kRelaxed) == 0) core.memory[size_t(PageMemory::constants)] += row.constant_bytes;
  here.host_ns.fetch_add(host_ns * weight, kRelaxed);
  const int64_t mean = row.mean_ns.load(kRelaxed);
  row.mean_ns.store(mean ? mean + (host_ns - mean) / 4 : host_ns, kRelaxed);
  export_if_watched(row);
}

void Page::count_untimed(ProgramCounters& row, size_t at, Status status) {
  add_outcome(cores_[at], status);
  row.per_core()[at].runs.fetch_add(1, kRelaxed);
}

int64_t sample_weight(const ProgramCounters& row, size_t core) {
  const int64_t runs = row.per_core()[core].runs.load(kRelaxed), mean = row.mean_ns.load(kRelaxed);
  if (runs < 2 || mean >= kShortNs) return 1;  // the first ones warm up, so they stand for themselves
  return runs % kSampleOneIn == kSampleOneIn / 2 ? kSampleOneIn : 0;
}

void Page::export_if_watched(ProgramCounters& row) {
  auto& header = *reinterpret_cast<PageHeader*>(bytes_);
  const int64_t until = header.watched_until_ns.load(kRelaxed);
  if (until == 0 || row.exported.load(kRelaxed) != 0 || fd_ < 0) return;
  if (wall_ns() > until) {
    header.watched_until_ns.store(0, kRelaxed);
    return;
  }
  if (is_exporting_.exchange(true)) return;
  if (const auto self = self_.lock())
    std::thread([self] {  // at the priority of the rest: beside busy ranks a lower one waits for minutes
      self->export_programs();
      self->is_exporting_ = false;
    })
        .detach();
}

void Page::export_programs() {
  const std::string folder = path_ + ".programs";
  ::mkdir(folder.c_str(), 0700);
  for (size_t i = 0;; ++i) {
    CountedInfo info;
    ProgramCounters* row = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (i >= infos_.size()) return;
      info = infos_[i];
      row = reinterpret_cast<ProgramCounters*>(bytes_ + reinterpret_cast<PageHeader*>(bytes_)->program_offset +
                                               i * program_bytes_);
    }
    if (row->exported.load(kRelaxed) != 0) continue;
    std::string text = info.text();
    if (text.empty() || text.size() > kExportMax) {
      row->exported.store(2, std::memory_order_release);
      continue;
    }
    Json weights = Json::array();
    for (const int64_t w : info.weights) weights.push(w);
    const Json head = Json::object()
                          .set("version", 1)
                          .set("faults", faults_)
                          .set("kind", info.kind)
                          .set("name", info.name)
                          .set("devices", info.devices)
                          .set("weights", std::move(weights));
    text.insert(0, cat(head.text(), "\n"));
    const std::string key = key_of(text), path = cat(folder, "/", key), begun = path + ".part";
    const bool is_there = write_file(begun, text) && ::rename(begun.c_str(), path.c_str()) == 0;
    put(row->key, key);
    row->exported.store(is_there ? 1 : 2, std::memory_order_release);
  }
}

CountedProgram::CountedProgram()
    : number_([] {
        static std::atomic<uint64_t> given = 0;
        return ++given;
      }()) {}

ProgramCounters* CountedProgram::in(Page* page, const std::function<CountedInfo()>& info) const {
  if (!page) return nullptr;
  ProgramCounters* row = row_.load(std::memory_order_acquire);
  if (row && page_.load(kRelaxed) == page) return row;
  row = &page->program(number_, info);
  if (Page* none = nullptr; page_.compare_exchange_strong(none, page)) row_.store(row, std::memory_order_release);
  return row;
}

CountedInfo info_of(const arch::HostPlan& plan, int64_t devices, std::vector<int64_t> weights) {
  CountedInfo out{.devices = devices, .arena_bytes = plan.arena_bytes, .weights = std::move(weights)};
  for (const trine::Tensor& t : plan.constants) out.constant_bytes += int64_t(t.view().bytes());
  if (!plan.source) return out;
  out.name = plan.source->name;
  out.text = [held = std::weak_ptr<const arch::PlanSource>(plan.source)] {
    const auto source = held.lock();
    return source ? source->artifact : std::string();
  };
  return out;
}

}  // namespace trine::run
