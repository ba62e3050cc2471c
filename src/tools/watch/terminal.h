// A terminal as long as this lives: keys one by one, another screen, and frames drawn by difference. On its end, also
// by a signal, everything is put back.
#pragma once

#include <string>
#include <vector>

namespace trine::tools {

enum class Key : int { none = 0, up = 1000, down, left, right, resized, ended };  // else the character

class Terminal {
 public:
  Terminal();
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  struct Size {
    int rows = 24, columns = 80;
  };
  static Size size();
  void draw(const std::vector<std::string>& lines);  // already cut to the size
  int wait_key(int milliseconds);                    // a Key or a character

 private:
  std::vector<std::string> shown_;
  Size drawn_ = {0, 0};
};

// The first so many columns; escape sequences take none and end closed.
std::string cut(std::string_view text, int columns);
int visible_width(std::string_view text);

}  // namespace trine::tools
