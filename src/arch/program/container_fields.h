// The fields of each record of a container, written once for reading and writing alike. IO is a Writer, a Reader or a
// Measure (container_io.h); a record is its fields in this order, integers little endian, sequences counted by a u64.
#pragma once

#include <type_traits>

#include "arch/program/program.h"

namespace trine::arch {

template <class T, class U>
concept Same = std::is_same_v<std::remove_const_t<T>, U>;

template <class IO>
void fields(IO& io, Same<Tensor> auto& t) {
  io(t.name, t.space, t.dtype, t.kind, t.core, t.shape, t.partition, t.address, t.alias, t.data_offset, t.data_bytes);
}
template <class IO>
void fields(IO& io, Same<Dim> auto& d) {
  io(d.stride, d.count);
}
template <class IO>
void fields(IO& io, Same<Pattern> auto& p) {
  io(p.dtype, p.rank, p.partitions, p.partition_stride, p.dims, p.step);
}
template <class IO>
void fields(IO& io, Same<Dynamic> auto& d) {
  io(d.kind, d.reg, d.index, d.scale);
}
template <class IO>
void fields(IO& io, Same<Operand> auto& o) {
  io(o.kind, o.partition, o.reg, o.tensor, o.pattern, o.dynamic, o.offset, o.immediate);
}
template <class IO>
void fields(IO& io, Same<Wait> auto& w) {
  io(w.semaphore, w.op, w.steps, w.value);
}
template <class IO>
void fields(IO& io, Same<Update> auto& u) {
  io(u.semaphore, u.op, u.value);
}
template <class IO>
void fields(IO& io, Same<Insn> auto& i) {
  io(i.opcode, i.waits, i.updates, i.operand, i.attr, i.wait, i.update, i.line);
}
template <class IO>
void fields(IO& io, Same<Stream> auto& s) {
  io(s.core, s.engine, s.insns);
}
template <class IO>
void fields(IO& io, Same<SourceLine> auto& l) {
  io(l.file, l.line);
}

}  // namespace trine::arch
