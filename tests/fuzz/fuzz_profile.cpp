// Any text is a profile or an InputError, and an accepted one reads back to the same text.
#include "costmodel/profile/profile.hpp"
#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  Profile profile;
  if (!fuzz::accepts([&] { profile = parse_profile(fuzz::text_of(data, size), "fuzz.yaml"); })) return 0;
  const std::string written = to_yaml(profile);
  if (to_yaml(parse_profile(written, "again.yaml")) != written) std::abort();
  return 0;
}
