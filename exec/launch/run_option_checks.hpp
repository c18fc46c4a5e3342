// Checks shared by the options of runs and profiles. They throw InputError with the option's name.
#pragma once

#include <string>
#include <vector>

namespace panpipe::exec {

void at_least(const char* option, int value, int least);
void one_of(const char* option, const std::string& value, const std::vector<std::string>& names);

}  // namespace panpipe::exec
