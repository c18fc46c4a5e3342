#include "schedule/family_text.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/error.hpp"
#include "base/text/characters.hpp"

namespace panpipe {
namespace {

bool is_number(const std::string& text) { return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos; }

}  // namespace

FamilyText read_family_text(const std::string& text, char separator) {
  const std::vector<std::string> parts = split_text(text, separator);
  FamilyText read{parts[0], {}};
  std::string* value = nullptr;  // of the last option: a list may hold the separator
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::size_t equals = parts[i].find('=');
    if (equals == std::string::npos && value != nullptr && is_number(parts[i])) {
      *value += separator + parts[i];
      continue;
    }
    if (equals == std::string::npos || equals == 0)
      throw InputError(
          fmt::format("behind the family {} an option is KEY=VALUE, as in interleaved-1f1b{}stages_per_rank=4, not '{}'",
                      read.family, separator, parts[i]));
    const auto [option, is_new] = read.options.emplace(parts[i].substr(0, equals), parts[i].substr(equals + 1));
    value = &option->second;
    if (!is_new) throw InputError(fmt::format("option '{}' of {} is given twice", parts[i].substr(0, equals), read.family));
  }
  return read;
}

}  // namespace panpipe
