#include "study/sweep/folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "base/files/file_hash.hpp"
#include "base/files/files_write.hpp"
#include "base/files/input_registry.hpp"
#include "base/input/error_with_caret.hpp"
#include "study/sweep/sweep.hpp"

namespace panpipe::study {
namespace {

namespace fs = std::filesystem;
constexpr const char* kAdvice = "choose another folder with -o";

void check_documents(const std::string& folder) {
  check_outputs(folder, {"grid.json", "cells.jsonl", "sweep.json", "sweep.csv", "sweep.html"}, kAdvice);
}

std::vector<std::string> whole_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<std::string> lines;
  std::string line;
  while (std::getline(file, line) && !file.eof()) lines.push_back(line);  // one without its end was cut off
  return lines;
}

// By the cell's place in the grid; lines of other grids are passed over.
std::map<std::size_t, SweepCell> cells_of(const SweepGrid& grid, const std::string& path) {
  std::map<std::string, std::size_t> places;
  for (std::size_t i = 0; i < grid.size(); ++i) places.emplace(grid.key(i), i);
  std::map<std::size_t, SweepCell> cells;
  for (const std::string& line : whole_lines(path)) {
    auto cell = parse_line(line);
    if (!cell) continue;
    const auto place = places.find(cell->key);
    if (place == places.end()) continue;
    cell->index = place->second;
    cells.insert_or_assign(place->second, std::move(*cell));
  }
  return cells;
}

bool is_final(CellStatus status) {
  return status == CellStatus::Fits || status == CellStatus::TooLarge || status == CellStatus::NoAnswer;
}

}  // namespace

SweepFolder::SweepFolder(std::string path) : path_(std::move(path)) {
  check_documents(path_);
  make_folder(path_, kAdvice);
  folder_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder_ < 0) throw MachineError(fmt::format("cannot open the folder {}: {}; {}", path_, std::strerror(errno), kAdvice));
  if (flock(folder_, LOCK_EX | LOCK_NB) != 0) {
    close(folder_);
    throw MachineError(fmt::format("another sweep is writing into {}; {}", path_, kAdvice));
  }
}

SweepFolder::~SweepFolder() {
  if (cells_ >= 0) close(cells_);
  close(folder_);
}

std::string SweepFolder::file(const char* name) const { return (fs::path(path_) / name).string(); }

std::map<std::size_t, SweepCell> SweepFolder::begin(const SweepGrid& grid) {
  std::map<std::string, std::string> hashes;  // of input files, as they are now
  const auto unchanged = [&](const std::pair<std::string, std::string>& input) {
    auto known = hashes.find(input.first);
    if (known == hashes.end()) known = hashes.emplace(input.first, sha256_of_file(input.first)).first;
    return known->second == input.second;
  };
  std::map<std::size_t, SweepCell> kept = cells_of(grid, file("cells.jsonl"));
  std::erase_if(kept, [&](const auto& entry) {
    const SweepCell& cell = entry.second;
    return !is_final(cell.status) || !std::all_of(cell.inputs.begin(), cell.inputs.end(), unchanged);
  });
  std::string lines;
  for (const auto& [index, cell] : kept) lines += to_line(cell) + "\n";
  write_file(file("grid.json"), to_json(grid), kAdvice);
  write_file(file("cells.jsonl"), lines, kAdvice);
  cells_ = open(file("cells.jsonl").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (cells_ < 0) throw MachineError(fmt::format("cannot open {}: {}; {}", file("cells.jsonl"), std::strerror(errno), kAdvice));
  return kept;
}

void SweepFolder::append(const SweepCell& cell) {
  for (const auto& [input, hash] : cell.inputs) register_input(input);  // read by a worker
  const std::string line = to_line(cell) + "\n";
  errno = 0;
  if (write(cells_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw MachineError(fmt::format("cannot write {}: {}; make room, then give the same command again", file("cells.jsonl"),
                                   std::strerror(errno != 0 ? errno : ENOSPC)));
}

void SweepFolder::finish(const SweepGrid& grid, const std::vector<SweepCell>& cells, const std::string& shard) {
  check_documents(path_);
  std::string lines;
  for (const SweepCell& cell : cells) lines += to_line(cell) + "\n";
  write_file(file("grid.json"), to_json(grid), kAdvice);
  write_file(file("cells.jsonl"), lines, kAdvice);
  write_file(file("sweep.json"), to_json(grid, cells, shard), kAdvice);
  write_file(file("sweep.csv"), to_csv(grid, cells), kAdvice);
  write_file(file("sweep.html"), to_page(grid, cells, shard), kAdvice);
}

SweepFound read_sweep(const std::string& folder) {
  const std::string path = (fs::path(folder) / "grid.json").string();
  const auto text = input_bytes(path);
  if (!text)
    throw InputError({diagnostic_of_file(folder, "there is no sweep in this folder (no grid.json)",
                                         "name folders that panpipe sweep --shard I/N -o DIR wrote")});
  register_input(path);
  SweepFound found{parse_grid(*text, path), {}};
  const std::string lines = (fs::path(folder) / "cells.jsonl").string();
  found.cells = cells_of(found.grid, lines);
  register_input(lines);
  return found;
}

}  // namespace panpipe::study
