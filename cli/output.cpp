#include "cli/output.hpp"

#include "base/files/files_write.hpp"

namespace panpipe::cli {

void show(const std::string& text) { print(wrapped(text, terminal_width())); }

bool deliver(const std::string& output, const std::string& text) {
  if (output.empty())
    print(text);
  else
    write_file(output, text, kAdvice);
  return !output.empty();
}

}  // namespace panpipe::cli
