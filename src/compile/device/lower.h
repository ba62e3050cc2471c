// Lowering: units of a graph, or of a region, as instructions on one recorder. Control flow is loops around the
// lowering of its regions.
#pragma once

#include <functional>
#include <map>
#include <unordered_set>

#include "compile/device/choose/choose.h"
#include "compile/device/control.h"
#include "compile/device/device.h"
#include "compile/device/memory/store.h"
#include "compile/device/multiplies/summed.h"

namespace trine::compile::device {

// The units as the device runs them: an elementwise op that the host has no tile program for is a loop all the same.
Fusion units_of(std::span<const ir::Node* const> nodes, std::span<const ir::Value> live_out);

// Why the device does not compute it; empty where it does.
std::string unit_obstacle(const Unit& unit);
std::string node_obstacle(const ir::Node& node);

class Lowering {
 public:
  Lowering(const ir::Graph& graph, const arch::Chip& chip, const DeviceOptions& options)
      : graph_(graph), options_(options), rec_(graph.name, chip), store_(rec_) {}

  // The program, and what it wants of its inputs. `fusion`: the graph's units_of.
  Result<std::vector<DeviceInput>> all(const Fusion& fusion);
  arch::Kernel& kernel() { return rec_.kernel(); }
  const arch::Kernel& kernel() const { return rec_.kernel(); }
  const std::vector<Chosen>& chosen() const { return chosen_; }  // units that had a choice, in order
  std::function<void(size_t done, size_t all)> progress = {};    // before each unit of the graph itself
  bool others_transpose = true;  // may DMA and the vector engine exchange rows and columns where that is faster?
  Choices choices = {};          // made so far; those of another lowering for the same chip and options hold too

  // One node each; see kRows.
  void dot(const ir::Node& node);
  void window_load(const ir::Node& node);
  void window_store(const ir::Node& node);
  void loop_while(const ir::Node& node);
  void branch(const ir::Node& node);
  Recorder& rec() { return rec_; }
  Store& store() { return store_; }
  const DotPolicy& policy() const { return options_.dots; }

 private:
  Error refuse(const Unit& unit, const std::string& why) const;
  uint32_t line_of(uint32_t where);
  void note_users(const std::vector<const ir::Node*>& nodes);
  void add_input(size_t i);
  int multiplies_of(const ir::Node& node) const;
  bool only_multiplied(const ir::Node& node) const;
  void narrow(const std::vector<Unit>& units, std::span<const ir::Value> live_out);
  void add_constants(const std::vector<const ir::Node*>& nodes);
  void body(const std::vector<const ir::Node*>& nodes, std::span<const ir::Value> live_out);
  void body(const std::vector<const ir::Node*>& nodes, std::span<const ir::Value> live_out, std::vector<Unit> units);
  void lower(const Unit& unit);
  void lower_chosen(const Unit& unit);
  bool is_summed(const Unit& unit) const;  // by the unit after it
  std::vector<Choice> variants_of(const Unit& unit);
  static bool has_variants(const Unit& unit);
  Chosen choose(const Unit& unit, const std::vector<Choice>& variants);
  Digest::Key key_of(const Unit& unit, const std::vector<Choice>& variants);
  Comparison fastest_cut(const Unit& unit, const std::vector<Choice>& variants, std::optional<Trial> first,
                         bool& transposes);
  Chosen choose_transpose_engine(const Unit& unit, const ChosenOnce& cuts, std::optional<Trial> alone);
  std::optional<Trial> record_trial(const Unit& unit, const Choice& variant);
  void find_transposed(const std::vector<Unit>& units, std::span<const ir::Value> live_out);
  bool wants_transposed(const ir::Node& out) const;
  void vote(const ir::Node& node, int& transposed, int& plain, int depth) const;

  bool reads_in_place(const ir::Node& node) const;
  // Memory that a node may write its result to in place of its input, or -1: nobody reads the input afterwards.
  int64_t taken_over(const ir::Node& node, uint32_t result, const ir::Value& input);
  void find_donations();

  std::vector<uint32_t> carry(const ir::Node& node, size_t first_input);
  void hold(const std::vector<ir::Value>& params, const std::vector<uint32_t>& tensors);
  void hand_over(const std::vector<ir::Value>& results, const std::vector<uint32_t>& tensors);
  void region(const ir::Region& region, const std::vector<uint32_t>& tensors);
  void load_condition(const ir::Region& condition, const std::vector<uint32_t>& tensors, Register into);
  bool is_own_input(size_t result) const;
  void allocate_results();

  const ir::Graph& graph_;
  const DeviceOptions& options_;
  Recorder rec_;
  Store store_;
  std::unordered_map<const ir::Node*, std::vector<const ir::Node*>> users_;
  std::unordered_map<const ir::Node*, const ir::Node*> written_as_;
  std::unordered_set<const ir::Node*> done_;
  SummedBy summed_;                               // of the body in hand
  std::unordered_map<uint32_t, uint32_t> lines_;  // of each location, as Insn::line

  // Of the body in hand.
  LastUse last_;
  size_t unit_ = 0;
  int bodies_ = 0;  // around the one in hand
  std::vector<Chosen> chosen_;
  std::unordered_set<const ir::Node*> inside_;
  std::unordered_set<ir::Value, ir::ValueHash> own_;  // what loops carry: nobody outside reads their memory
  std::unordered_map<ir::Value, std::pair<size_t, ir::Value>, ir::ValueHash> donated_;  // its result and parameter
};

}  // namespace trine::compile::device
