#include "cli/output.hpp"

#include <unistd.h>

#include <cstdlib>

namespace panpipe::cli {

bool color_wanted() { return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr; }

}  // namespace panpipe::cli
