// Packed weights and their common bound.
#include "host/kept.h"

#include <unistd.h>

#include <atomic>

namespace trine::host {

namespace {

std::atomic<int64_t> in_use = 0;

std::atomic<int64_t>& bytes_max() {
  static std::atomic<int64_t> limit = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4;
  return limit;
}

}  // namespace

int64_t Kept::bytes_in_use() { return in_use.load(); }
void Kept::set_bytes_max(int64_t bytes) { bytes_max() = bytes; }

Kept::~Kept() {
  for (const Form& form : forms_)
    if (form.packed) in_use -= int64_t(form.packed->bytes());
}

std::shared_ptr<const PackedMatrix> Kept::packed(const Matrix& b, int64_t offset, int64_t k, int64_t n) {
  std::lock_guard lock(mutex_);
  for (Form& form : forms_) {
    if (!form.is_for(b, offset, k, n)) continue;
    if (form.packed) return form.packed;
    const int64_t size = int64_t(packed_bytes(b.dtype, k, n));
    if (in_use.load() + size > bytes_max().load()) return nullptr;
    auto made = pack_b(b, k, n);
    if (!made) return nullptr;
    form.packed = std::make_shared<const PackedMatrix>(*std::move(made));
    in_use += int64_t(form.packed->bytes());
    return form.packed;
  }
  forms_.push_back({offset, k, n, b.row_stride, b.col_stride, nullptr});
  return nullptr;
}

}  // namespace trine::host
