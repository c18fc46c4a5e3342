// Any text is a quantity or a sentence, never both or neither; and what is printed exactly parses back to the same value.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"

namespace {

template <class T>
void check(const panpipe::Parsed<T>& parsed) {
  if (parsed.value.has_value() == !parsed.problem.empty()) std::abort();
}

template <class T>
void check_exact(const panpipe::Parsed<T>& parsed, panpipe::Parsed<T> (*parse)(std::string_view)) {
  check(parsed);
  if (!parsed.value) return;
  panpipe::to_text(*parsed.value);
  const auto again = parse(panpipe::exact_text(*parsed.value));
  if (!again.value || *again.value != *parsed.value) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_exact(panpipe::parse_duration(text), panpipe::parse_duration);
  check_exact(panpipe::parse_bytes(text), panpipe::parse_bytes);
  check_exact(panpipe::parse_bandwidth(text), panpipe::parse_bandwidth);
  check_exact(panpipe::parse_compute_rate(text), panpipe::parse_compute_rate);
  check(panpipe::parse_fraction(text));
  check(panpipe::parse_number(text));
  check(panpipe::parse_integer(text));
  panpipe::nearest_name(text, {"memory", "bandwidth", "microbatches", ""});
  return 0;
}
