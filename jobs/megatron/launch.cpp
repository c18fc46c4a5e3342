#include "jobs/megatron/launch.hpp"

#include <algorithm>

#include "jobs/megatron/yaml_arguments.hpp"

namespace panpipe::jobs {
namespace {

constexpr std::size_t kMostLaunches = 64;

bool states_layers(const std::vector<ShellWord>& words) {
  return std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
    return word.text.rfind("--num-layers", 0) == 0 || word.text.rfind("--num_layers", 0) == 0;
  });
}

// A program whose arguments are in a variable that is not known.
bool may_train(const std::vector<ShellWord>& words) {
  const bool open = std::any_of(words.begin(), words.end(), [](const ShellWord& word) { return word.stands_alone; });
  const bool python = std::any_of(words.begin(), words.end(), [](const ShellWord& word) {
    return word.text.ends_with(".py") || word.text == "torchrun" || word.text == "deepspeed" || word.text.find("python") == 0;
  });
  return open && python;
}

bool same_words(const Launch& a, const Launch& b) {
  return std::equal(a.words.begin(), a.words.end(), b.words.begin(), b.words.end(),
                    [](const ShellWord& x, const ShellWord& y) { return x.text == y.text; });
}

void add_distinct(std::vector<Launch>& launches, const Launch& launch) {
  const auto same = [&](const Launch& other) { return same_words(other, launch); };
  if (launches.size() < kMostLaunches && std::none_of(launches.begin(), launches.end(), same)) launches.push_back(launch);
}

// Arguments that stand alone in a text, without a program: "--num-layers 2 ..." on lines of their own.
bool is_bare(const LaunchScript& script) {
  const auto begins = [](const Launch& launch) { return launch.words.front().text.rfind("--", 0) == 0; };
  const auto trains = [&](const Launch& launch) { return !begins(launch) && states_layers(launch.words); };
  return std::any_of(script.launches.begin(), script.launches.end(), begins) &&
         std::none_of(script.launches.begin(), script.launches.end(), trains);
}

std::vector<ShellWord> bare_words(const LaunchScript& script, const std::string& text, const std::string& name) {
  std::vector<ShellWord> words = shell_words(text, name);
  const bool expands = std::any_of(words.begin(), words.end(), [](const ShellWord& word) { return word.expands; });
  if (!expands || !script.remarks.empty()) return words;
  words.clear();
  for (const Launch& launch : script.launches) words.insert(words.end(), launch.words.begin(), launch.words.end());
  return words;
}

}  // namespace

MegatronLaunches megatron_launches(const std::string& text, const std::string& name, const JobOptions& options) {
  MegatronLaunches found;
  std::vector<ShellWord> words = yaml_arguments(text, name, options.script.defines);
  if (!words.empty()) {
    found.launches.push_back({std::move(words), name, 1});
    return found;
  }
  LaunchScript script = read_launch_script(text, name, options.script);
  found.written = std::move(script.written);
  found.nodes = script.nodes, found.gpus_per_node = script.gpus_per_node;
  if (is_bare(script)) {
    Launch bare{bare_words(script, text, name), name, 1};
    found.launches.push_back(std::move(bare));
    return found;
  }
  found.remarks = std::move(script.remarks);
  for (const Launch& launch : script.launches)
    if (states_layers(launch.words)) add_distinct(found.launches, launch);
  if (found.launches.empty() && !states_layers(script.loose_words))
    for (const Launch& launch : script.launches)
      if (may_train(launch.words)) add_distinct(found.launches, launch);
  if (!found.launches.empty()) return found;
  if (states_layers(script.loose_words))
    found.launches.push_back({script.loose_words, name, 1});
  else
    found.launches.push_back({shell_words(text, name), name, 1});
  return found;
}

}  // namespace panpipe::jobs
