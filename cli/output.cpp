#include "cli/output.hpp"

#include "base/files/files_write.hpp"

namespace panpipe::cli {

void show(const std::string& text) { print(wrapped(text, terminal_width())); }

void show_line(const std::string& text) {
  if (progress_wanted()) print_note("\r\x1b[K" + (text.empty() ? text : text + "\r"));
}

bool deliver(const std::string& output, const std::string& text) {
  if (output.empty())
    print(text);
  else
    write_file(output, text, kAdvice);
  return !output.empty();
}

}  // namespace panpipe::cli
