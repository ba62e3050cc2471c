// Local rewrites that make a graph smaller or cheaper and change no value: a table of named rules, and constants
// folded.
#pragma once

#include <span>

#include "ir/rewrite.h"

namespace trine::compile {

std::span<const ir::Rule> simplify_rules();
ir::Rewritten simplify(const ir::Graph& graph);
ir::Rewritten simplify_for_host(const ir::Graph& graph);  // with rules for loops that the host fuses

}  // namespace trine::compile
