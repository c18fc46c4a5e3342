// Where a verb's words go: data to standard output, whole or with an error, and colour only for people.
#pragma once

#include <string>

namespace panpipe::cli {

// To standard output. MachineError when it cannot take all of it (a full disk); a closed pipe ends the program silently.
void print(const std::string& text);

// Whether standard output is a terminal that wants colour (NO_COLOR unset).
bool color_wanted();

}  // namespace panpipe::cli
