// torch.cuda.memory_summary() as people paste it, also behind the marks of a log, and the message of an out-of-memory error.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "base/error.hpp"
#include "base/text/characters.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/trimmed.hpp"
#include "jobs/memory/measured_memory.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::string_view kTitle = "memory summary, device ID ";

// The cells between a line's bars.
std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  std::size_t bar = line.find('|');
  while (bar != std::string_view::npos) {
    const std::size_t next = line.find('|', bar + 1);
    if (next == std::string_view::npos) break;
    cells.push_back(trimmed(line.substr(bar + 1, next - bar - 1)));
    bar = next;
  }
  return cells;
}

std::optional<std::int64_t> bytes_of(std::string_view text) {
  const Parsed<Bytes> parsed = parse_bytes(text);
  if (!parsed.value || *parsed.value < Bytes(0)) return std::nullopt;
  return parsed.value->base();
}

// "cudaMalloc retries: 2" -> 2
long long count_behind(std::string_view line, std::string_view words) {
  const std::size_t found = line.find(words);
  if (found == std::string_view::npos) return 0;
  std::string_view rest = trimmed(line.substr(found + words.size()));
  rest = rest.substr(0, rest.find_first_not_of("0123456789"));
  return parse_integer(rest).value.value_or(0);
}

void read_row(const std::vector<std::string_view>& cells, MeasuredMemory& memory) {
  if (cells.size() < 3) return;
  const auto now = bytes_of(cells[1]), peak = bytes_of(cells[2]);
  if (!now || !peak) return;
  if (cells[0] == "Allocated memory") memory.allocated = now, memory.peak_allocated = peak;
  if (cells[0] == "Requested memory") memory.requested = now, memory.peak_requested = peak;
  if (cells[0] == "GPU reserved memory") memory.reserved = now, memory.peak_reserved = peak;
  if (cells[0] == "Non-releasable memory") memory.inactive_split = now;
}

// The two words in front of `words`: "70.12 GiB is allocated by PyTorch".
std::optional<std::int64_t> bytes_before(std::string_view line, std::string_view words) {
  const std::size_t found = line.find(words);
  if (found == std::string_view::npos) return std::nullopt;
  const std::string_view before = trimmed(line.substr(0, found));
  const std::size_t unit = before.find_last_of(' ');
  if (unit == std::string_view::npos || unit == 0) return std::nullopt;
  const std::size_t number = before.find_last_of(' ', unit - 1);
  return bytes_of(before.substr(number == std::string_view::npos ? 0 : number + 1));
}

void read_message(std::string_view line, std::map<int, MeasuredMemory>& devices) {
  const auto allocated = bytes_before(line, "is allocated by PyTorch");
  const auto unused = bytes_before(line, "is reserved by PyTorch but unallocated");
  if (!allocated || !unused) return;
  const int device = static_cast<int>(count_behind(line, "GPU "));
  MeasuredMemory& memory = devices[device];
  memory = {};
  memory.source = "out-of-memory message";
  memory.device = device;
  memory.allocated = memory.peak_allocated = allocated;
  memory.reserved = memory.peak_reserved = *allocated + *unused;
  memory.out_of_memory = 1;
}

}  // namespace

MeasuredMemory parse_memory_text(const std::string& text, const std::string& name, std::optional<int> device) {
  std::map<int, MeasuredMemory> devices;
  MeasuredMemory* memory = nullptr;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    read_message(line, devices);
    if (line.find(kTitle) != std::string_view::npos) {
      const int number = static_cast<int>(count_behind(line, kTitle));
      memory = &devices[number];  // of several summaries of a device the last one counts
      *memory = {};
      memory->source = "summary";
      memory->device = number;
    }
    if (memory == nullptr) continue;
    if (const long long count = count_behind(line, "OOMs: ")) memory->out_of_memory = count;
    if (const long long count = count_behind(line, "cudaMalloc retries: ")) memory->retries = count;
    read_row(cells_of(line), *memory);
  }
  if (devices.empty())
    throw InputError(fmt::format("{}: this is neither a memory snapshot nor a printed memory summary of PyTorch", name),
                     "write torch.cuda.memory._dump_snapshot(FILE), or print(torch.cuda.memory_summary())", code::kSyntax);
  const MeasuredMemory* chosen = nullptr;
  for (const auto& [number, measured] : devices)
    if (device ? number == *device : chosen == nullptr || measured.peak_reserved > chosen->peak_reserved) chosen = &measured;
  if (chosen == nullptr)
    throw InputError(fmt::format("{}: there is nothing of GPU {}", name, *device),
                     fmt::format("it has GPU {}", devices.begin()->first), code::kOutOfRange);
  if (!chosen->peak_allocated || !chosen->peak_reserved)
    throw InputError(
        fmt::format("{}: the summary of GPU {} lacks the rows of allocated and reserved memory", name, chosen->device),
        "print the whole of torch.cuda.memory_summary()", code::kSyntax);
  return *chosen;
}

}  // namespace panpipe::jobs
