#include "costmodel/memory/allocator_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/text/did_you_mean.hpp"
#include "base/text/quantity_text.hpp"

namespace panpipe {
namespace {

constexpr std::int64_t kMebibyte = std::int64_t{1} << 20;

// What changes nothing here; c10/core/AllocatorConfig.h and c10/cuda/CUDAAllocatorConfig.h name them.
constexpr std::string_view kElsewhere[] = {"release_lock_on_cudamalloc",        "pinned_use_cuda_host_register",
                                           "pinned_num_register_threads",       "pinned_use_background_threads",
                                           "graph_capture_record_stream_reuse", "pinned_reserve_segment_size_mb"};

[[noreturn]] void refuse(std::string_view key, std::string_view value, std::string_view expected) {
  throw InputError(fmt::format("allocator setting {}: '{}' is not {}", key, value, expected), "", code::kOutOfRange);
}

long long whole(std::string_view key, std::string_view value, long long least, long long most) {
  const Parsed<long long> number = parse_integer(value);
  if (!number.value || *number.value < least || *number.value > most)
    refuse(key, value, fmt::format("a whole number from {} to {}", least, most));
  return *number.value;
}

std::int64_t mebibytes(std::string_view key, std::string_view value, long long least) {
  constexpr long long kMost = 1 << 20;  // 1 TiB
  return whole(key, value, least, kMost) * kMebibyte;
}

double share(std::string_view key, std::string_view value) {
  const Parsed<double> number = parse_number(value);
  if (!number.value || !(*number.value > 0 && *number.value <= 1)) refuse(key, value, "a number above 0, up to 1");
  return *number.value;
}

bool flag(std::string_view key, std::string_view value) {
  if (value != "True" && value != "False") refuse(key, value, "True or False");
  return value == "True";
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

int power_of_two(std::string_view key, std::string_view value) {
  const long long number = whole(key, value, 0, 1 << 16);
  if (number != 0 && !std::has_single_bit(static_cast<unsigned>(number))) refuse(key, value, "0 or a power of two");
  return static_cast<int>(number);
}

// "8", or "[256:1,512:2,>:4]": what holds from 256 MiB, from 512 MiB and above. The first also holds below.
void read_parts(std::string_view key, std::string_view value, std::array<int, AllocatorSettings::kIntervals>& parts) {
  if (!value.starts_with('[')) return parts.fill(power_of_two(key, value));
  if (!value.ends_with(']')) refuse(key, value, "a list that ends with ]");
  std::size_t next = 0;
  bool first = true;
  for (const std::string_view item : split(value.substr(1, value.size() - 2), ',')) {
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos) refuse(key, item, "MEBIBYTES:PARTS or >:PARTS");
    const std::string_view from = item.substr(0, colon);
    const int number = power_of_two(key, item.substr(colon + 1));
    if (from == ">") {
      std::fill(parts.begin() + static_cast<std::ptrdiff_t>(next), parts.end(), number);
      continue;
    }
    const int size = power_of_two(key, from);
    if (size == 0) refuse(key, from, "a power of two");
    const std::size_t index = std::min<std::size_t>(std::bit_width(static_cast<unsigned>(size)) - 1, parts.size() - 1);
    if (first) std::fill(parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(index), number);
    first = false;
    parts[index] = number;
    next = index + 1;
  }
}

void set(AllocatorSettings& settings, std::string_view key, std::string_view value) {
  // AllocatorConfig.cpp refuses a largest split of 20 MiB or less: such blocks share a segment.
  if (key == "expandable_segments")
    settings.expandable_segments = flag(key, value);
  else if (key == "max_split_size_mb")
    settings.max_split_size = mebibytes(key, value, AllocatorSettings::kSegment / kMebibyte + 1);
  else if (key == "max_non_split_rounding_mb")
    settings.max_unsplit_rest = mebibytes(key, value, AllocatorSettings::kSegment / kMebibyte + 1);
  else if (key == "large_segment_size_mb")
    settings.large_segment_size = mebibytes(key, value, AllocatorSettings::kSegment / kMebibyte);
  else if (key == "garbage_collection_threshold")
    settings.garbage_collection_threshold = share(key, value);
  else if (key == "per_process_memory_fraction")
    settings.per_process_fraction = share(key, value);
  else if (key == "roundup_power2_divisions")
    read_parts(key, value, settings.roundup_parts);
  else if (key == "backend") {
    if (value != "native") refuse(key, value, "native, the allocator that is known here");
  } else if (std::find(std::begin(kElsewhere), std::end(kElsewhere), key) == std::end(kElsewhere)) {
    throw InputError(
        fmt::format("there is no allocator setting '{}'{}", key,
                    suggestion_or_list(std::string(key), {"expandable_segments", "max_split_size_mb", "max_non_split_rounding_mb",
                                                          "large_segment_size_mb", "garbage_collection_threshold",
                                                          "per_process_memory_fraction", "roundup_power2_divisions"})),
        "", code::kUnknownName);
  }
}

}  // namespace

AllocatorSettings parse_allocator_settings(std::string_view text) {
  std::string tight;
  for (const char each : text)
    if (!std::isspace(static_cast<unsigned char>(each))) tight += each;
  AllocatorSettings settings;
  for (std::size_t begin = 0; begin < tight.size();) {
    std::size_t end = begin;
    for (int depth = 0; end < tight.size() && (depth > 0 || tight[end] != ','); ++end)
      depth += tight[end] == '[' ? 1 : tight[end] == ']' ? -1 : 0;
    const std::string_view item = std::string_view(tight).substr(begin, end - begin);
    const std::size_t colon = item.find(':');
    if (colon == std::string_view::npos)
      throw InputError(fmt::format("allocator setting '{}' has no value", item), "write KEY:VALUE, separated by commas",
                       code::kSyntax);
    set(settings, item.substr(0, colon), item.substr(colon + 1));
    begin = end + 1;
  }
  return settings;
}

}  // namespace panpipe
