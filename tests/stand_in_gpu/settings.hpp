// The settings of the stand-in GPU, from the environment. README.md lists them with their meaning.
#pragma once

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace panpipe::stand_in {

inline std::string text_setting(const char* name, const char* otherwise = "") {
  const char* value = std::getenv(name);
  return value ? value : otherwise;
}

[[noreturn]] inline void refuse_setting(const char* name, const std::string& value, const char* expected) {
  std::fprintf(stderr, "stand-in GPU: %s is '%s'; expected %s\n", name, value.c_str(), expected);
  std::_Exit(2);
}

inline long number_setting(const char* name, long otherwise) {
  const std::string value = text_setting(name);
  if (value.empty()) return otherwise;
  char* end = nullptr;
  const long number = std::strtol(value.c_str(), &end, 10);
  if (*end != '\0' || number < 0) refuse_setting(name, value, "a whole number");
  return number;
}

inline std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

// The rank of this process in its world; -1 where none was given.
inline int world_rank() { return static_cast<int>(number_setting("RANK", -1)); }

// The release of CUDA that the driver of STAND_IN_DRIVER is for, as CUDA writes it: 13000 is 13.0. Drivers from 580 on are for
// 13.0, those of 550 for 12.4 (NVIDIA, CUDA Toolkit release notes, table 3).
inline std::string driver() { return text_setting("STAND_IN_DRIVER", "580.65.06"); }
inline int cuda_of_driver() { return std::atoi(driver().c_str()) >= 580 ? 13000 : 12040; }

// STAND_IN_ARITHMETIC=0: nothing is computed and large copies are left out, so that only shapes, allocations and order are as on
// a GPU.
inline bool computes() {
  static const bool asked = number_setting("STAND_IN_ARITHMETIC", 1) != 0;
  return asked;
}
// What is copied all the same, on devices and between ranks: sizes, counts and shapes that programs read back.
constexpr std::size_t kAlwaysCopied = 64 << 10;
inline bool is_copied(std::size_t bytes) { return computes() || bytes <= kAlwaysCopied; }

// Upper and lower case count the same: `allreduce` is in `ncclAllReduce`.
inline bool contains(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); }) != text.end();
}

// STAND_IN_SLOW: milliseconds that an operation takes longer, where its name contains one of the names that are given.
inline int slower_by_ms(std::string_view operation) {
  struct Slow {
    std::string name;
    int ms;
  };
  static const std::vector<Slow> all = [] {
    constexpr const char* kName = "STAND_IN_SLOW";
    std::vector<Slow> found;
    const std::string value = text_setting(kName);
    if (value.empty()) return found;
    for (const std::string& part : split(value, ',')) {
      constexpr const char* kExpected = "NAME:MILLISECONDS or NAME@RANK:MILLISECONDS, separated by commas";
      const std::size_t colon = part.rfind(':'), at = part.find('@');
      if (colon == std::string::npos || colon == 0) refuse_setting(kName, value, kExpected);
      if (at < colon && std::atoi(part.c_str() + at + 1) != world_rank()) continue;
      const std::string name = part.substr(0, std::min(at, colon));
      // LibTorch's fused optimizers are _fused_adam_, _fused_adamw_ and _fused_sgd_.
      for (const std::string& each :
           name == "optimizer" ? std::vector<std::string>{"_fused_adam", "_fused_sgd"} : std::vector<std::string>{name})
        found.push_back({each, std::atoi(part.c_str() + colon + 1)});
    }
    return found;
  }();
  int ms = 0;
  for (const Slow& slow : all)
    if (contains(operation, slow.name)) ms += slow.ms;
  return ms;
}

}  // namespace panpipe::stand_in
