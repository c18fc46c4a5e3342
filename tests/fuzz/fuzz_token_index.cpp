// Any bytes are the index of a file of tokens or an InputError; what is accepted counts tokens that its own lengths make.
#include "exec/file_formats/token_index.hpp"
#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  const fuzz::MemoryFile file(fuzz::text_of(data, size));
  fuzz::accepts([&] {
    const exec::TokenIndex index = exec::read_token_index(file.path());
    // A length is four bytes of the file and at most 2^31 - 1 tokens.
    if (index.tokens < 0 || index.tokens > static_cast<std::int64_t>(size / 4) * 0x7fffffff) std::abort();
  });
  return 0;
}
