# The ops are whatever files under src/ops define an op of their own name. From the list come
#   ir/op_ids.h   namespace trine::op: the ids; C++ keywords get an underscore (op::and_)
#   op_names.cpp  part of trine_ir: their names
#   ops.cpp       part of trine_ops: their rows, and the comments that open their files
file(GLOB_RECURSE op_files CONFIGURE_DEPENDS src/ops/*.cpp)
list(SORT op_files COMPARE FILE_BASENAME)
set(op_keywords and or not xor case while)
set(ids "")
set(names "")
set(declared "")
set(listed "")
set(said "")
set(index 1)  # 0: no op; 1: parameter
foreach(path ${op_files})
  get_filename_component(stem ${path} NAME_WE)
  file(STRINGS ${path} defines REGEX "^extern const Op op_${stem}[ {]" LIMIT_COUNT 1)
  if(NOT defines)
    continue()
  endif()
  math(EXPR index "${index} + 1")
  set(spelled ${stem})
  if(stem IN_LIST op_keywords)
    string(APPEND spelled "_")
  endif()
  string(APPEND ids "inline constexpr ir::OpId ${spelled}{${index}};\n")
  string(APPEND names "    \"${stem}\",\n")
  string(APPEND declared "extern const Op op_${stem};\n")
  string(APPEND listed "    &op_${stem},\n")
  file(READ ${path} text)
  string(REGEX MATCH "^(// ?[^\n]*\n)+" text "${text}")
  string(REGEX REPLACE "(^|\n)// ?" "\\1" text "${text}")
  string(APPEND said "    R\"says(${text})says\",\n")
endforeach()
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${op_files})

set(written "// Written by cmake/ops.cmake from the names of the files under src/ops, sorted.")
file(CONFIGURE OUTPUT generated/ir/op_ids.h CONTENT "${written}
#pragma once

#include \"ir/op_id.h\"

namespace trine::op {

inline constexpr ir::OpId parameter{1};
${ids}
}  // namespace trine::op
" @ONLY)
file(CONFIGURE OUTPUT op_names.cpp CONTENT "${written}
#include <span>
#include <string_view>

namespace trine::ir {

static constexpr std::string_view kNames[] = {
    \"no op\",
    \"parameter\",
${names}};
std::span<const std::string_view> op_id_names();
std::span<const std::string_view> op_id_names() { return kNames; }

}  // namespace trine::ir
" @ONLY)
file(CONFIGURE OUTPUT ops.cpp CONTENT "${written}
#include \"ops/op.h\"

#include <algorithm>

namespace trine::ops {

${declared}
static const Op* const kOps[] = {
${listed}};
std::span<const Op* const> all_ops() { return kOps; }

static const std::string_view kSummaries[] = {
${said}};
std::string_view op_summary(const Op& op) { return kSummaries[std::find(std::begin(kOps), std::end(kOps), &op) - kOps]; }

}  // namespace trine::ops
")
