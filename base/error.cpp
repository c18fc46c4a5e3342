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
    text += diagnostic.text();
  }
  return without_controls(std::move(text), kLines);
}

// Faults quote text from files and the command line.
std::vector<Diagnostic> printable(std::vector<Diagnostic> diagnostics) {
  for (Diagnostic& diagnostic : diagnostics)
    for (std::string* text : {&diagnostic.message, &diagnostic.help, &diagnostic.key, &diagnostic.place, &diagnostic.excerpt})
      *text = without_controls(std::move(*text), kLines);
  return diagnostics;
}

}  // namespace

std::string Diagnostic::text() const {
  if (rendered) return message;
  std::string text = (place.empty() ? "" : place + ": ") + "error: " + message;
  if (!key.empty()) text += "\n  at " + key;
  if (!excerpt.empty()) text += "\n" + excerpt;
  if (!help.empty()) text += "\n  help: " + help;
  return text;
}

InputError::InputError(std::vector<Diagnostic> diagnostics)
    : std::runtime_error(joined(diagnostics)), diagnostics_(printable(std::move(diagnostics))) {}

InputError::InputError(const std::string& message, const std::string& help, std::string_view code)
    : InputError(std::vector<Diagnostic>{{.message = message, .help = help, .code = code}}) {}

void internal_error(const char* file, int line, const char* expression, const std::string& message) {
  throw InternalError(fmt::format("this is a bug in panpipe: {} ({}:{}: '{}' does not hold)", message, file, line, expression));
}

}  // namespace panpipe
