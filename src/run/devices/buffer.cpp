// The life of a buffer: in use, held from outside, donated, deleted.
#include "run/devices/buffer.h"

#include "base/text.h"

namespace trine::run {

Buffer::~Buffer() {
  if (external_count_ > 0) external_->end_foreign_use();
}

Error Buffer::gone() const {
  return fail(Code::invalid, cat(is_donated_ ? "Buffer has been deleted or donated: a program took over the array "
                                             : "Buffer has been deleted: the array ",
                                 shape_text(dtype_, dims_)));
}

bool Buffer::is_deleted() const {
  std::lock_guard lock(mutex_);
  return !storage_;
}

void Buffer::remove() {
  std::shared_ptr<Storage> last;  // released after the lock
  std::lock_guard lock(mutex_);
  last.swap(storage_);
}

Result<std::shared_ptr<Storage>> Buffer::use() const {
  std::lock_guard lock(mutex_);
  if (!storage_) return gone();
  return storage_;
}

Result<std::shared_ptr<Storage>> Buffer::use_foreign() const {
  std::lock_guard lock(mutex_);
  if (!storage_) return gone();
  storage_->begin_foreign_use();
  return storage_;
}

Result<std::shared_ptr<Storage>> Buffer::donate() {
  std::lock_guard lock(mutex_);
  if (!storage_) return gone();
  is_donated_ = true;
  return std::move(storage_);
}

Result<std::byte*> Buffer::hold_external() {
  std::lock_guard lock(mutex_);
  if (external_count_ == 0) {
    if (!storage_) return gone();
    external_ = storage_;
    external_->begin_foreign_use();
  }
  ++external_count_;
  return external_->data();
}

void Buffer::release_external() {
  std::shared_ptr<Storage> last;
  std::lock_guard lock(mutex_);
  if (external_count_ == 0 || --external_count_ > 0) return;
  external_->end_foreign_use();
  last.swap(external_);
}

}  // namespace trine::run
