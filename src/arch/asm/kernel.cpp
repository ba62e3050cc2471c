// Reading recorded kernels: each instruction goes to the stream of its first engine and loops to all, as a Recording
// has them, so that assembler and Recording do the rest. See kernel.h.
#include "arch/asm/kernel.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "arch/asm/asm.h"
#include "arch/asm/cursor.h"
#include "arch/program/recording.h"
#include "base/text.h"

namespace trine::arch {

namespace {

class KernelReader {
 public:
  KernelReader(std::string_view text, std::string_view file) : lines_(split(text, '\n')), file_(file) {}

  Result<Recording> run() {
    for (size_t i = 0; i < lines_.size(); ++i) TRY(line(i));
    std::string all = join_lines(head_);
    for (size_t e = 0; e < streams_.size(); ++e) {
      all += cat("stream ", name(Engine(e)), "\n", join_lines(streams_[e]));
      numbers_.push_back(0);
      numbers_.insert(numbers_.end(), stream_numbers_[e].begin(), stream_numbers_[e].end());
    }
    auto program = assemble(all, file_);
    if (!program) return at_its_line(program.error());
    out_.program = std::move(*program);
    std::array<size_t, kEngineCount> at{};
    for (Recording::Beside& beside : out_.kernel_insns) {
      const auto first = size_t(only_engine(beside.engines));
      beside.insn = out_.program.streams[first].insns[at[first]];
      for (size_t e = 0; e < at.size(); ++e)
        if (e == first || is_everywhere(beside.insn.opcode)) ++at[e];
    }
    return std::move(out_);
  }

 private:
  using Lines = std::vector<std::string>;
  static std::string join_lines(const Lines& lines) {
    std::string out;
    for (const std::string& line : lines) out.append(line).append("\n");
    return out;
  }
  static bool is_everywhere(uint16_t opcode) { return opcode == kOpLoop || opcode == kOpEndLoop; }

  Error wrong(size_t number, std::string message) const {
    return fail(Code::invalid, std::move(message), cat(file_, ":", number + 1));
  }

  Result<void> line(size_t number) {
    const std::string_view text = trim(lines_[number].substr(0, lines_[number].find('#')));
    const std::string_view word = text.substr(0, text.find(' '));
    if (text.empty()) return {};
    if (text == "middle end") return out_.middle_end = true, Result<void>();
    if (text == "one engine") return out_.one_engine = true, Result<void>();
    const bool is_head =
        word == "kernel" || word == "chip" || word == "producer" || word == "tensor" || word == "const";
    if (!is_head) return instruction(number, text);
    const size_t bar = text.find('|');
    const std::string_view head = trim(text.substr(0, bar));
    if (bar != text.npos && (word != "tensor" || trim(text.substr(bar + 1)) != "own"))
      return wrong(number, cat("found `", text.substr(bar), "`, expected `| own` after a tensor"));
    if (word == "tensor" || word == "const")
      out_.origins.push_back({head.find(" at ") != head.npos, 0, bar != text.npos});
    head_.push_back(word == "kernel" ? cat("program", head.substr(word.size())) : std::string(head));
    numbers_.push_back(number);
    return {};
  }

  Result<void> instruction(size_t number, std::string_view text) {
    const auto parts = split(text, '|');
    const std::string_view insn = trim(parts[0]), word = insn.substr(0, insn.find(' '));
    const RowInfo* const info = row_by_name(word);
    if (!info) return wrong(number, cat("no instruction is named `", word, "`"));
    Recording::Beside beside{.engines = engines_of(*info->row)};
    for (size_t i = 1; i < parts.size(); ++i) TRY(note(number, trim(parts[i]), beside));
    for (size_t e = 0; e < streams_.size(); ++e) {
      if (e != size_t(only_engine(beside.engines)) && !is_everywhere(info->row->opcode)) continue;
      streams_[e].emplace_back(insn);
      stream_numbers_[e].push_back(number);
    }
    out_.kernel_insns.push_back(std::move(beside));
    return {};
  }

  Result<void> note(size_t number, std::string_view text, Recording::Beside& beside) {
    const auto words = split(text, ' ');
    if (text == "in order") return beside.fixed_order = true, Result<void>();
    if (text == "own queue") return beside.queue_given = true, Result<void>();
    if (text == "while") return beside.repeats = true, Result<void>();
    if (words[0] == "on") beside.engines = 0;
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[0] == "on") {
        const auto engine = engine_by_name(words[i]);
        if (!engine) return wrong(number, cat("no engine is named `", words[i], "`"));
        beside.engines |= bit(*engine);
      } else if (words[0] == "after") {
        uint32_t n = 0;
        const char* const end = words[i].data() + words[i].size();
        if (std::from_chars(words[i].data(), end, n).ptr != end || n >= out_.kernel_insns.size())
          return wrong(number, cat("found `", words[i], "`, expected the number of an earlier instruction"));
        beside.after.push_back(n);
      }
    }
    if (words.size() > 1 && (words[0] == "on" || words[0] == "after")) return {};
    return wrong(number, cat("found `", text, "`, expected on, after, in order, own queue or while"));
  }

  // "file:LINE:COLUMN" of what was handed to the assembler, as the user's own line.
  Error at_its_line(Error error) const {
    const size_t from = file_.size() + 1;
    size_t line = 0;
    if (error.where.size() > from)
      std::from_chars(error.where.data() + from, error.where.data() + error.where.size(), line);
    if (line && line <= numbers_.size()) error.where = cat(file_, ":", numbers_[line - 1] + 1);
    return error;
  }

  std::vector<std::string_view> lines_;
  std::string_view file_;
  Lines head_;
  std::array<Lines, kEngineCount> streams_;
  std::array<std::vector<size_t>, kEngineCount> stream_numbers_;
  std::vector<size_t> numbers_;  // of each line that the assembler sees, the user's
  Recording out_;
};

}  // namespace

EngineMask engines_of(const Row& row) {
  if (row.unit == Unit::queue) return kSync | kScalar | kGpsimd;
  if (row.unit == Unit::rendezvous) return kSync;
  return row.engines;
}

Result<Kernel> assemble_kernel(std::string_view text, std::string_view file_name, const Chip& chip) {
  Recording recording = TRY(KernelReader(text, file_name).run());
  Kernel out;
  out.chip = recording.program.chip.empty() ? &chip : TRY(find_chip(recording.program.chip));
  out.program().name = std::exchange(recording.program.name, "");
  out.program().chip = out.chip->name;
  out.middle_end = recording.middle_end;
  out.one_engine = recording.one_engine;
  TRY(append(out, recording, {}));
  return out;
}

}  // namespace trine::arch
