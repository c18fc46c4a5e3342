// Any bytes are a launch script that is followed to its end, or an InputError; what its words hold stands where they state it.
#include "jobs/shell/launch_script.hpp"

#include "tests/fuzz/fuzz_input.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  const std::string text = fuzz::text_of(data, size);
  jobs::LaunchScript script;
  if (!fuzz::accepts([&] { script = jobs::read_launch_script(text, "job.sh"); })) return 0;
  for (const jobs::Launch& launch : script.launches)
    for (const jobs::ShellWord& word : launch.words) {
      std::string whole;
      for (const jobs::WordPiece& piece : word.pieces) {
        whole += piece.text;
        if (piece.place && text.compare(piece.place->begin, piece.place->end - piece.place->begin, piece.text) != 0 &&
            text.find('\r') == std::string::npos)
          std::abort();
      }
      if (whole != word.text) std::abort();
    }
  return 0;
}
