// Any two texts are the folder of a sweep (grid.json and cells.jsonl, parted by a zero byte) or an InputError; grid and cells of
// an accepted one read back to what they were, and can be shown.
#include <filesystem>

#include "study/sweep/folder.hpp"
#include "study/sweep/sweep.hpp"
#include "tests/fuzz/fuzz_input.hpp"
#include "tests/fuzz/json_mutator.hpp"
#include "tests/temporary_folder.hpp"

namespace {

// In memory where there is such a place.
const panpipe::test::TemporaryFolder& folder() {
  namespace fs = std::filesystem;
  static const panpipe::test::TemporaryFolder made(fs::is_directory("/dev/shm") ? fs::path("/dev/shm")
                                                                                : fs::temp_directory_path());
  return made;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace panpipe;
  using namespace panpipe::study;
  std::string rest = fuzz::text_of(data, size);
  folder().write("grid.json", fuzz::take_piece(rest, '\0'));
  folder().write("cells.jsonl", rest);
  study::SweepFound found;
  if (!fuzz::accepts([&] { found = read_sweep(folder().path()); })) return 0;
  const std::string grid = to_json(found.grid);
  if (to_json(parse_grid(grid, "again.json")) != grid) std::abort();
  std::vector<study::SweepCell> cells;
  for (const auto& [index, cell] : found.cells) {
    const auto again = parse_line(to_line(cell));
    if (!again || to_line(*again) != to_line(cell)) std::abort();
    for (const auto& [name, value] : cell.metrics) fuzz::must_be_finite(value);
    cells.push_back(cell);
  }
  to_json(found.grid, cells, "");
  to_csv(found.grid, cells);
  to_table(found.grid, cells);
  to_page(found.grid, cells, "");
  return 0;
}
