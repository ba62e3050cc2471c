// Local rewrites that make a graph smaller or cheaper and change no value: a table of named rules, and constants
// folded. One changes values, and is asked for by name.
#pragma once

#include <span>

#include "ir/rewrite.h"

namespace trine::compile {

std::span<const ir::Rule> simplify_rules();
ir::Rewritten simplify(const ir::Graph& graph);
ir::Rewritten simplify_for_host(const ir::Graph& graph);  // with rules for loops that the host fuses

// A factor that is a converted truth chooses, as in XLA: infinity times false is 0 there, and programs rely on it.
ir::Graph choose_by_truths(const ir::Graph& graph);

}  // namespace trine::compile
