// Small questions about a Program; see program.h.
#include "arch/program/program.h"

#include "base/text.h"

namespace trine::arch {

size_t ConstantBytes::append(std::span<const std::byte> bytes, size_t align) {
  if (file_) {
    owned_.assign(part_.begin(), part_.end());
    file_.reset();
  }
  const size_t begin = (owned_.size() + align - 1) / align * align;
  owned_.resize(begin);
  owned_.insert(owned_.end(), bytes.begin(), bytes.end());
  return begin;
}

int Program::find_tensor(std::string_view wanted) const {
  for (size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == wanted) return static_cast<int>(i);
  return -1;
}

int64_t Program::instruction_count() const {
  int64_t n = 0;
  for (const auto& s : streams) n += static_cast<int64_t>(s.insns.size());
  return n;
}

int64_t element_count(const Tensor& t) {
  int64_t n = 1;
  for (int64_t d : t.shape) n *= d;
  return n;
}

int64_t tensor_bytes(const Tensor& t) { return (element_count(t) * bits(t.dtype) + 7) / 8; }

int64_t bytes_per_partition(const Tensor& t) {
  int64_t n = 1;
  for (size_t i = 1; i < t.shape.size(); ++i) n *= t.shape[i];
  return (n * bits(t.dtype) + 7) / 8;
}

std::string source_line(const Program& p, const Insn& insn) {
  if (!insn.line) return {};
  const SourceLine& at = p.lines[insn.line - 1];
  return cat(p.strings[at.file], ":", at.line);
}

}  // namespace trine::arch
