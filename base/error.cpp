#include "base/error.hpp"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/text/characters.hpp"

namespace panpipe {

namespace {

constexpr std::string_view kLines = "\n\t";  // of a fault

std::string joined(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& diagnostic : diagnostics) {
    if (!text.empty()) text += '\n';
    text += diagnostic.text;
  }
  return without_controls(std::move(text), kLines);
}

// Faults quote text from files and the command line.
std::vector<Diagnostic> printable(std::vector<Diagnostic> diagnostics) {
  for (Diagnostic& diagnostic : diagnostics)
    for (std::string* text : {&diagnostic.message, &diagnostic.text}) *text = without_controls(std::move(*text), kLines);
  return diagnostics;
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
    : std::runtime_error(joined(diagnostics)), diagnostics_(printable(std::move(diagnostics))) {}

InputError::InputError(const std::string& message) : InputError(std::vector<Diagnostic>{without_place(message)}) {}

void internal_error(const char* file, int line, const char* expression, const std::string& message) {
  throw InternalError(fmt::format("this is a bug in panpipe: {} ({}:{}: '{}' does not hold)", message, file, line, expression));
}

}  // namespace panpipe
