// Any bytes are a document or an InputError. Every node must have a place inside the text.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/input/yaml_document.hpp"

namespace {

void check(const panpipe::Node& node) {
  if (node.line < 1 || node.column < 1) std::abort();
  for (const auto& item : node.items) check(*item);
  for (const auto& entry : node.entries) check(*entry.value);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  // The part before the first zero byte is a document, the rest an override.
  const std::size_t cut = text.find('\0');
  try {
    const panpipe::NodePtr root = panpipe::parse_document(text.substr(0, cut), "fuzz.yaml", "");
    check(*root);
    if (cut != std::string::npos) panpipe::apply_override(*root, text.substr(cut + 1));
    check(*root);
  } catch (const panpipe::InputError& error) {
    if (error.diagnostics().empty() || error.diagnostics().size() > 20) std::abort();
  }
  return 0;
}
