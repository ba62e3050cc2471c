// Packed weights and their common bound.
#include "host/gemm/packed.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <utility>

namespace trine::host {

namespace {

constexpr size_t kDropMin = size_t{2} << 20;  // bytes: from here on memory is whole pages of the system's

// In the count of uses: one that reads forms where it can, and one of the tensor's own bytes.
constexpr int64_t kByForms = 1, kPlain = int64_t{1} << 32;

std::atomic<int64_t> in_use = 0;

std::atomic<int64_t>& bytes_max() {
  static std::atomic<int64_t> limit = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE) / 4;
  return limit;
}

}  // namespace

int64_t PackedForms::bytes_in_use() { return in_use.load(); }
void PackedForms::set_bytes_max(int64_t bytes) { bytes_max() = bytes; }

PackedForms::~PackedForms() {
  for (const Form& form : forms_)
    if (form.packed) in_use -= int64_t(form.packed->bytes());
}

std::shared_ptr<const PackedMatrix> PackedForms::packed(const Matrix& b, int64_t offset, int64_t k, int64_t n) {
  std::lock_guard lock(mutex_);
  ++asks_;
  for (Form& form : forms_) {
    if (!form.is_for(b, offset, k, n)) continue;
    const uint64_t before = std::exchange(form.asked, asks_);
    if (form.packed) return form.packed;
    restore();
    const int64_t size = int64_t(packed_bytes(b.dtype, k, n));
    if (!make_room(form, before) || in_use.load() + size > bytes_max().load()) return nullptr;
    auto made = pack_b(b, k, n);
    if (!made) return nullptr;
    form.packed = std::make_shared<const PackedMatrix>(*std::move(made));
    in_use += int64_t(form.packed->bytes());
    if (uses_ == kByForms && !is_pinned_) drop();  // whoever asks is the only one, and has the form
    return form.packed;
  }
  restore();
  forms_.push_back({offset, k, n, b.row_stride, b.col_stride, asks_, nullptr});
  return nullptr;
}

bool PackedForms::make_room(const Form& form, uint64_t since) {
  if (has_room(form)) return true;
  for (Form& other : forms_)
    if (other.packed && other.asked < since) in_use -= int64_t(std::exchange(other.packed, nullptr)->bytes());
  return has_room(form);
}

bool PackedForms::has_room(const Form& form) const {
  int64_t first = form.first(), end = form.end(), values = form.k * form.n;
  bool is_alone = true;
  for (const Form& other : forms_) {
    if (!other.packed) continue;
    is_alone = false;
    first = std::min(first, other.first());
    end = std::max(end, other.end());
    values += other.k * other.n;
  }
  return is_alone || values <= end - first;
}

bool PackedForms::begin_use(bool by_forms_alone) {
  if (bytes_ < kDropMin) return false;
  std::lock_guard lock(mutex_);
  if (is_gone_ && by_forms_alone) return false;
  restore();
  uses_ += by_forms_alone ? kByForms : kPlain;
  return true;
}

void PackedForms::end_use(bool counts, bool by_forms_alone) {
  if (!counts || bytes_ < kDropMin) return;
  std::lock_guard lock(mutex_);
  uses_ -= by_forms_alone ? kByForms : kPlain;
  if (uses_ == 0 && by_forms_alone && !is_pinned_ && !is_gone_) drop();
}

void PackedForms::pin() {
  std::lock_guard lock(mutex_);
  restore();
  is_pinned_ = true;
}

const PackedForms::Form* PackedForms::whole() const {
  for (const Form& f : forms_) {
    const bool is_dense = (f.col_stride == 1 && f.row_stride == f.n) || (f.row_stride == 1 && f.col_stride == f.k);
    if (f.packed && f.packed->dtype() == Dtype::f32 && is_dense && f.offset == 0 && size_t(f.k * f.n * 4) == bytes_)
      return &f;
  }
  return nullptr;
}

void PackedForms::restore() {
  if (!is_gone_) return;
  const Form& form = *whole();
  unpack_b(*form.packed, reinterpret_cast<float*>(own_), form.row_stride, form.col_stride);
  is_gone_ = false;
  is_pinned_ = true;  // who reads them once will again
}

void PackedForms::drop() {
  constexpr size_t kPage = 4096;
  if (whole() && madvise(own_, bytes_ / kPage * kPage, MADV_DONTNEED) == 0) is_gone_ = true;
}

}  // namespace trine::host
