#include "base/error.hpp"

#include <fmt/format.h>

#include <utility>

namespace panpipe {

namespace {

std::string joined(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += diagnostic.text;
  }
  return text;
}

Diagnostic without_place(const std::string& message) {
  Diagnostic diagnostic;
  diagnostic.message = message;
  diagnostic.text = "error: " + message;
  return diagnostic;
}

}  // namespace

Diagnostic shown_at(Diagnostic diagnostic, const std::string& place) {
  PANPIPE_CHECK(!diagnostic.place.empty() && diagnostic.text.starts_with(diagnostic.place), "a fault without a stated place");
  diagnostic.text.replace(0, diagnostic.place.size(), place);
  diagnostic.place = place;
  return diagnostic;
}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(joined(diagnostics)), diagnostics_(std::move(diagnostics)) {}

InputError::InputError(const std::string& message) : InputError(std::vector<Diagnostic>{without_place(message)}) {}

void internal_error(const char* file, int line, const char* expression, const std::string& message) {
  throw InternalError(fmt::format("this is a bug in panpipe: {} ({}:{}: '{}' does not hold)", message, file, line, expression));
}

}  // namespace panpipe
