// Any bytes are a safetensors file or an InputError, and tensors of an accepted file lie inside it. The input is taken twice: as
// the whole file, and as header and data parted by a zero byte, with the right length put in front.
#include "exec/file_formats/safetensors_header.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/json_mutator.hpp"

namespace {

using namespace panpipe;

void read(const std::string& bytes) {
  const fuzz::MemoryFile file(bytes);
  fuzz::accepts([&] {
    for (const auto& [name, tensor] : exec::read_safetensors_header(file.descriptor(), file.path()).tensors) {
      std::int64_t elements = 1;
      for (const std::int64_t extent : tensor.shape) elements *= extent;
      if (elements * exec::safetensors_element_bytes(tensor.type) != tensor.bytes || tensor.offset < 8 ||
          tensor.offset + tensor.bytes > static_cast<std::int64_t>(bytes.size()))
        std::abort();
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string text = fuzz::text_of(data, size);
  read(text);
  const std::string header = fuzz::take_piece(text, '\0');
  std::string length(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(header.size() >> (8 * i) & 0xff);
  read(length + header + text);
  return 0;
}
