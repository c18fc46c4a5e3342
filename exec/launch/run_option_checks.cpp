#include "exec/launch/run_option_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"

namespace panpipe::exec {

void at_least(const char* option, int value, int least) {
  if (value < least) throw InputError(fmt::format("{} must be at least {}, not {}", option, least, value));
}

void one_of(const char* option, const std::string& value, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), value) != names.end()) return;
  throw InputError(fmt::format("{} is {}, not '{}'{}", option, fmt::join(names, ", "), value, suggestion(value, names)));
}

}  // namespace panpipe::exec
