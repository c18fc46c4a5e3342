// Files written whole or not at all.
#pragma once

#include <string>

namespace panpipe {

// Written beside, then renamed. MachineError with the reason and `advice`.
void write_file(const std::string& path, const std::string& text, const std::string& advice = "");

}  // namespace panpipe
