#include "base/text/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/text/characters.hpp"

namespace panpipe {
namespace {

constexpr int kNarrowest = 20;   // below, no table can be read
constexpr int kWidest = 100000;  // of COLUMNS

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool dumb_terminal() { return variable("TERM") == "dumb"; }

bool utf8_locale() {
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"})
    if (const std::string value = lower_case(variable(name)); !value.empty())
      return value.find("utf-8") != std::string::npos || value.find("utf8") != std::string::npos;
  return true;
}

}  // namespace

bool color_wanted() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr && !dumb_terminal(); }

int terminal_width() {
  if (isatty(STDOUT_FILENO) == 0) return 0;
  if (const int columns = std::atoi(variable("COLUMNS").c_str()); columns >= kNarrowest && columns <= kWidest) return columns;
  struct winsize size {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? std::max<int>(size.ws_col, kNarrowest) : 0;
}

TextStyle style_of_output() { return {.color = color_wanted(), .ascii = !utf8_locale(), .width = terminal_width()}; }

bool progress_wanted() { return isatty(STDERR_FILENO) != 0 && !dumb_terminal(); }

}  // namespace panpipe
