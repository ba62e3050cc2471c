// Escape sequences and termios; see terminal.h.
#include "tools/watch/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include "base/text.h"

namespace trine::tools {

namespace {

std::atomic<bool> is_over = false, is_resized = false;
termios before;
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[2J", kLeave = "\x1b[0m\x1b[?25h\x1b[?1049l";

void put(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(size_t(n));
  }
}

// Length of the escape sequence at `at`, 0 where there is none.
size_t escape_at(std::string_view text, size_t at) {
  if (at + 1 >= text.size() || text[at] != '\x1b' || text[at + 1] != '[') return 0;
  size_t end = at + 2;
  while (end < text.size() && !std::isalpha(static_cast<unsigned char>(text[end]))) ++end;
  return end - at + 1;
}

size_t character_at(std::string_view text, size_t at) {  // its bytes
  size_t n = 1;
  while (at + n < text.size() && (static_cast<unsigned char>(text[at + n]) & 0xC0) == 0x80) ++n;
  return n;
}

}  // namespace

std::string cut(std::string_view text, int columns) {
  std::string out;
  bool is_open = false;
  int used = 0;
  for (size_t i = 0; i < text.size();) {
    if (const size_t n = escape_at(text, i)) {
      out += text.substr(i, n);
      is_open = text.substr(i, n) != "\x1b[0m";
      i += n;
      continue;
    }
    const size_t n = character_at(text, i);
    const int width = display_width(text.substr(i, n));
    if (used + width > columns) break;
    out += text.substr(i, n);
    used += width, i += n;
  }
  return is_open ? out + "\x1b[0m" : out;
}

int visible_width(std::string_view text) {
  int used = 0;
  for (size_t i = 0; i < text.size();) {
    if (const size_t n = escape_at(text, i)) {
      i += n;
      continue;
    }
    const size_t n = character_at(text, i);
    used += display_width(text.substr(i, n)), i += n;
  }
  return used;
}

Terminal::Terminal() {
  ::tcgetattr(STDIN_FILENO, &before);
  termios raw = before;
  raw.c_lflag &= ~tcflag_t(ICANON | ECHO);
  raw.c_cc[VMIN] = 1, raw.c_cc[VTIME] = 0;
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  struct sigaction end{};
  end.sa_handler = [](int) { is_over = true; };
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(s, &end, nullptr);
  struct sigaction resize{};
  resize.sa_handler = [](int) { is_resized = true; };
  ::sigaction(SIGWINCH, &resize, nullptr);
  put(kEnter);
}

Terminal::~Terminal() {
  put(kLeave);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

Terminal::Size Terminal::size() {
  winsize found{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &found) != 0 || !found.ws_row || !found.ws_col) return {};
  return {found.ws_row, found.ws_col};
}

void Terminal::draw(const std::vector<std::string>& lines) {
  const Size now = size();
  std::string out = "\x1b[?2026h";  // shown at once, where the terminal knows that
  if (now.rows != drawn_.rows || now.columns != drawn_.columns) {
    shown_.clear();
    out += "\x1b[2J";
    drawn_ = now;
  }
  shown_.resize(size_t(now.rows));
  for (size_t r = 0; r < shown_.size(); ++r) {
    std::string line = r < lines.size() ? cut(lines[r], now.columns) : std::string();
    if (line == shown_[r]) continue;
    out += cat("\x1b[", r + 1, ";1H", line, visible_width(line) < now.columns ? "\x1b[0m\x1b[K" : "");
    shown_[r] = std::move(line);
  }
  put(out + "\x1b[?2026l");
}

int Terminal::wait_key(int milliseconds) {
  if (is_over) return int(Key::ended);
  if (is_resized.exchange(false)) return int(Key::resized);
  pollfd in{STDIN_FILENO, POLLIN, 0};
  const int found = ::poll(&in, 1, milliseconds);
  if (is_over) return int(Key::ended);
  if (is_resized.exchange(false)) return int(Key::resized);
  if (found <= 0) return int(Key::none);
  char bytes[8];
  const ssize_t n = ::read(STDIN_FILENO, bytes, sizeof bytes);
  if (n <= 0) return int(Key::ended);
  if (n >= 3 && bytes[0] == '\x1b' && (bytes[1] == '[' || bytes[1] == 'O')) {
    constexpr std::string_view kArrows = "ABDC";
    const size_t at = kArrows.find(bytes[2]);
    if (at != std::string_view::npos) return int(Key::up) + int(at);
    return int(Key::none);
  }
  return static_cast<unsigned char>(bytes[0]);
}

}  // namespace trine::tools
