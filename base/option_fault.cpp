#include "base/option_fault.hpp"

#include <fmt/format.h>

#include "base/text/did_you_mean.hpp"

namespace panpipe {
namespace {

constexpr std::string_view kDashes = "--";

}  // namespace

InputError option_fault(std::string_view option, const std::string& message, const std::string& help, std::string_view code) {
  const std::string written = fmt::format("{}{}", kDashes, option);
  return InputError({{.message = message, .help = help, .place = written, .code = code, .file = written}});
}

InputError unknown_choice(std::string_view option, const std::string& name, const std::vector<std::string>& names) {
  return option_fault(option, fmt::format("there is no '{}'{}", name, suggestion_or_list(name, names)), "", code::kUnknownName);
}

std::string option_of(const Diagnostic& fault) {
  const bool of_option = fault.file.starts_with(kDashes) && fault.override_text.empty();
  return of_option ? fault.file.substr(kDashes.size()) : std::string();
}

}  // namespace panpipe
