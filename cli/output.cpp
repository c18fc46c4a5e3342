#include "cli/output.hpp"

namespace panpipe::cli {

void show(const std::string& text) { print(wrapped(text, terminal_width())); }

}  // namespace panpipe::cli
