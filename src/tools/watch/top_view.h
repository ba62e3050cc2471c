// neuron-top's screen as lines: utilisation of cores, host processors, memory, and the tree of what holds it; tabs of
// processes at the bottom. A function of a sample, what the user chose, and the size; knows no terminal.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "run/counters/monitor.h"

namespace trine::tools {

struct TopState {
  bool shows_flops = false, shows_help = false, has_colour = false;
  int64_t pid = 0;                  // of the tab; 0: all
  size_t cursor = 0;                // in the tree
  std::set<std::string> open = {};  // unfolded nodes, by path
  int64_t pending = 0;              // programs that are being timed
};

class TopView {
 public:
  TopView(const run::Sample& sample, const run::Monitor& monitor, TopState& state);
  std::vector<std::string> lines(int rows, int columns);
  void key(int key);  // changes the state; q is the caller's

 private:
  struct Node {
    std::string path = {}, label = {};
    int depth = 0;
    bool has_children = false;
    int64_t host = 0, device = 0;
  };
  std::vector<const run::ProcessSample*> chosen() const;
  void build_tree();
  std::vector<std::string> cores(int columns, size_t room) const;
  std::vector<std::string> engines(int columns) const;
  std::vector<std::string> cpu(int columns) const;
  std::vector<std::string> memory() const;
  std::vector<std::string> tree(size_t room);
  std::string tabs() const;
  std::string heading(std::string_view text, int columns) const;
  std::string title(int columns) const;
  bool is_visible(const Node& node) const;

  const run::Sample& sample_;
  const run::Monitor& monitor_;
  TopState& state_;
  std::vector<Node> nodes_;
};

}  // namespace trine::tools
