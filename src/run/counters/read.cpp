// Maps pages, checks them against their files, copies what is in use; see read.h.
#include "run/counters/read.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "base/format/json.h"
#include "base/text.h"

namespace trine::run {

namespace {

namespace fs = std::filesystem;
constexpr int64_t kCoresMax = 1 << 16, kBytesMax = int64_t{1} << 33;
constexpr auto kYoung = std::chrono::seconds(10);  // a page that is being made

int64_t wall_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

template <size_t kSize>
std::string text_of(const std::array<char, kSize>& from) {
  std::string out(from.data(), strnlen(from.data(), kSize));
  return is_utf8(out) ? out : std::string();
}

bool fits(int64_t offset, int64_t each, int64_t count, int64_t least, int64_t bytes) {
  return offset >= 0 && offset % 64 == 0 && each >= least && each % 64 == 0 && each <= bytes && count >= 0 &&
         count <= bytes / each && offset <= bytes - each * count;
}

int64_t get(const Count& c) { return c.load(std::memory_order_relaxed); }

template <size_t kTo, size_t kFrom>
void copy(std::array<int64_t, kTo>& to, const std::array<Count, kFrom>& from) {
  static_assert(kTo <= kFrom);
  for (size_t i = 0; i < kTo; ++i) to[i] = get(from[i]);
}

ProcessCounters::Core read_core(const CoreCounters& c, size_t at) {
  ProcessCounters::Core out;
  out.at = at, out.id = get(c.id), out.chip = get(c.chip), out.on_chip = get(c.on_chip);
  out.executions = get(c.executions), out.failures = get(c.failures), out.busy_ns = get(c.busy_ns);
  out.host_to_device_bytes = get(c.host_to_device_bytes), out.device_to_host_bytes = get(c.device_to_host_bytes);
  out.device_to_device_bytes = get(c.device_to_device_bytes);
  out.memory_limit = get(c.memory_limit), out.memory_peak = get(c.memory_peak);
  copy(out.memory, c.memory), copy(out.statuses, c.statuses), copy(out.ecc, c.ecc);
  copy(out.collectives, c.collectives), copy(out.collective_bytes, c.collective_bytes);
  copy(out.collective_ns, c.collective_ns);
  out.slowed_permille = get(c.slowed_permille), out.lost = get(c.lost) != 0;
  for (size_t i = 0; i < kBuckets; ++i) out.latency[i] = c.latency[i].load(std::memory_order_relaxed);
  return out;
}

ProcessCounters::Program read_row(const ProgramCounters& row, const std::vector<ProcessCounters::Core>& cores) {
  ProcessCounters::Program out;
  out.name = text_of(row.name);
  const int64_t exported = row.exported.load(std::memory_order_acquire);
  if (exported == 1) out.key = text_of(row.key);
  for (const char c : out.key)
    if (!std::isxdigit(static_cast<unsigned char>(c))) out.key.clear();  // it names a file
  out.is_gone = exported == 2 || (exported == 1 && out.key.empty());
  out.devices = get(row.devices), out.constant_bytes = get(row.constant_bytes), out.arena_bytes = get(row.arena_bytes);
  for (const ProcessCounters::Core& core : cores)
    out.per_core.push_back({get(row.per_core()[core.at].runs), get(row.per_core()[core.at].host_ns)});
  return out;
}

}  // namespace

Result<ProcessCounters> parse_page(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(PageHeader) || reinterpret_cast<uintptr_t>(bytes.data()) % 64 != 0)
    return fail(Code::invalid, cat("found ", bytes.size(), " bytes, expected a page of counters"));
  const auto& header = *reinterpret_cast<const PageHeader*>(bytes.data());
  if (header.ready.load(std::memory_order_acquire) == 0) return fail(Code::not_found, "the page is being made");
  if (header.magic != kPageMagic || header.version != kPageVersion)
    return fail(Code::unsupported,
                cat("found counters of version ", header.version, "; this build reads ", kPageVersion));
  const auto size = int64_t(bytes.size());
  const int64_t cores = header.core_count, per_core = header.core_bytes, rows = header.program_count,
                per_row = header.program_bytes;
  if (cores > kCoresMax || !fits(header.core_offset, per_core, cores, sizeof(CoreCounters), size) ||
      !fits(header.program_offset, per_row, rows,
            int64_t(sizeof(ProgramCounters)) + std::max<int64_t>(cores, 0) * int64_t(sizeof(ProgramCounters::PerCore)),
            size))
    return fail(Code::invalid,
                cat("a page of ", size, " bytes does not hold ", cores, " cores and ", rows, " programs"));
  ProcessCounters out;
  out.pid = header.pid, out.started_ns = header.started_ns, out.lnc = std::clamp<int64_t>(header.lnc, 1, 64);
  out.instance = text_of(header.instance), out.library = text_of(header.library), out.tag = text_of(header.tag);
  out.command = text_of(header.command), out.runtime_version = text_of(header.runtime_version);
  for (int64_t i = 0; i < cores; ++i) {
    const auto& core = *reinterpret_cast<const CoreCounters*>(bytes.data() + header.core_offset + i * per_core);
    if (get(core.touched)) out.cores.push_back(read_core(core, size_t(i)));
  }
  const int64_t used = std::clamp<int64_t>(header.programs_used.load(std::memory_order_acquire), 0, rows);
  for (int64_t i = 0; i < used; ++i) {
    const auto& row = *reinterpret_cast<const ProgramCounters*>(bytes.data() + header.program_offset + i * per_row);
    if (row.ready.load(std::memory_order_acquire)) out.programs.push_back(read_row(row, out.cores));
  }
  return out;
}

bool is_page_name(std::string_view name) {
  const size_t dot = name.find('.');
  const auto is_number = [](std::string_view t) {
    return !t.empty() && t.size() < 12 && std::all_of(t.begin(), t.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  return dot != std::string_view::npos && is_number(name.substr(0, dot)) && is_number(name.substr(dot + 1));
}

void remove_page(const std::string& path) {
  std::error_code none;
  fs::remove_all(path + ".programs", none);
  ::unlink(path.c_str());
}

struct PageReader::Open {
  int fd = -1;
  bool is_writable = false;
  char* bytes = nullptr;
  size_t size = 0;

  explicit Open(const std::string& path) {
    fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    is_writable = fd >= 0;
    if (fd < 0) fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  }
  ~Open() {
    if (bytes) ::munmap(bytes, size);
    if (fd >= 0) ::close(fd);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  // Whoever writes it holds the lock. A page that nobody has finished may be about to be locked.
  bool is_dead() const {
    struct stat found{};
    if (::fstat(fd, &found) != 0 || !S_ISREG(found.st_mode)) return false;
    if (!bytes &&
        wall_ns() - int64_t(found.st_mtim.tv_sec) * 1'000'000'000 < std::chrono::nanoseconds(kYoung).count()) {
      PageHeader head;
      const bool is_made =
          ::pread(fd, static_cast<void*>(&head), sizeof head, 0) == ssize_t(sizeof head) && head.ready.load() != 0;
      if (!is_made) return false;
    }
    if (::flock(fd, LOCK_SH | LOCK_NB) != 0) return false;
    ::flock(fd, LOCK_UN);
    return true;
  }

  bool map() {
    struct stat found{};
    if (bytes) return true;
    if (::fstat(fd, &found) != 0 || found.st_size < off_t(sizeof(PageHeader)) || found.st_size > kBytesMax)
      return false;
    void* const at =
        ::mmap(nullptr, size_t(found.st_size), is_writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return false;
    bytes = static_cast<char*>(at), size = size_t(found.st_size);
    return true;
  }
};

PageReader::PageReader(std::string folder) : folder_(std::move(folder)) {}
PageReader::~PageReader() = default;

std::vector<ProcessCounters> PageReader::read(int64_t watch_ns) {
  std::map<std::string, std::unique_ptr<Open>> alive;
  std::vector<ProcessCounters> out;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder_, none)) {
    const std::string name = entry.path().filename().string();
    if (!is_page_name(name)) continue;
    auto& open = open_[name];
    if (!open) open = std::make_unique<Open>(entry.path().string());
    if (open->fd < 0) continue;
    if (open->is_dead()) {
      remove_page(entry.path().string());
      continue;
    }
    if (!open->map()) continue;
    auto page = parse_page(std::as_bytes(std::span(open->bytes, open->size)));
    if (page) {
      page->file = name;
      if (open->is_writable && watch_ns > 0)
        reinterpret_cast<PageHeader*>(open->bytes)
            ->watched_until_ns.store(wall_ns() + watch_ns, std::memory_order_relaxed);
      out.push_back(*std::move(page));
    }
    alive[name] = std::move(open);
  }
  open_ = std::move(alive);
  std::sort(out.begin(), out.end(),
            [](const auto& a, const auto& b) { return std::tie(a.pid, a.file) < std::tie(b.pid, b.file); });
  return out;
}

void remove_dead(const std::string& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (!is_page_name(entry.path().filename().string())) continue;
    const PageReader::Open open(entry.path().string());
    if (open.fd >= 0 && open.is_dead()) remove_page(entry.path().string());
  }
}

}  // namespace trine::run
