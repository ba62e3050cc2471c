// Pages as one mapping: the system gives memory as pages are first written.
#include "run/decoder/pages.h"

#include <sys/mman.h>

#include <utility>

#include "base/text.h"

namespace trine::run {

Result<KvMemory> KvMemory::make(int64_t pages, int64_t page_bytes) {
  if (pages <= 0 || page_bytes <= 0 || pages > (int64_t{1} << 46) / page_bytes)
    return fail(Code::invalid, cat(pages, " pages of ", page_bytes, " bytes for keys and values"));
  KvMemory m;
  void* at = ::mmap(nullptr, size_t(pages * page_bytes), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return fail(Code::out_of_memory, cat("no ", pages * page_bytes, " bytes for keys and values"));
  m.data_ = static_cast<std::byte*>(at), m.pages_ = pages, m.page_bytes_ = page_bytes;
  return m;
}

void KvMemory::swap(KvMemory& other) {
  std::swap(data_, other.data_), std::swap(pages_, other.pages_), std::swap(page_bytes_, other.page_bytes_);
}

KvMemory::~KvMemory() {
  if (data_) ::munmap(data_, size_t(pages_ * page_bytes_));
}

}  // namespace trine::run
