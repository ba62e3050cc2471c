// UnitKey: what the instructions of a unit by itself follow from, in 128 bits: its nodes, where what it reads lies and
// what its results are kept as. Units of one key are written alike on a recorder of their own.
#pragma once

#include <unordered_map>

#include "compile/device/choose/choose.h"
#include "compile/device/memory/store.h"
#include "compile/graph/fuse.h"

namespace trine::compile::device {

class UnitKey {
 public:
  UnitKey(const Unit& unit, const Store& store, const arch::Program& program);

  void add(const ir::Node* node);  // what it is made of; nodes of the unit are so already
  void add(uint64_t v) { digest_.add(v); }
  void add(std::string_view s) { digest_.add(s); }
  const Digest::Key& key() const { return digest_.key(); }

 private:
  void add(const ir::Value& v);
  void add(const Memory& m);
  void add(const Axes& axes);
  void describe(const ir::Node& node);

  const Store& store_;
  const arch::Program& program_;
  Digest digest_;
  std::unordered_map<const ir::Node*, uint64_t> nodes_;
  std::unordered_map<const Memory*, uint64_t> memories_;
};

}  // namespace trine::compile::device
