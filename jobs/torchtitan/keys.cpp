#include "jobs/torchtitan/keys.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "jobs/job.hpp"

namespace panpipe::jobs {
namespace {

bool is_option_word(const std::string& word) { return word.size() > 2 && word.starts_with("--"); }

// "--activation-checkpoint.no-early-stop": underscores, and `no_` in front of the last part switches off.
void set_switch(JobKeys& keys, const std::string& path) {
  const std::size_t point = path.rfind('.');
  const std::size_t last = point == std::string::npos ? 0 : point + 1;
  if (path.compare(last, 3, "no_") == 0)
    keys.replace(path.substr(0, last) + path.substr(last + 3), "false");
  else
    keys.replace(path, "true");
}

}  // namespace

void override_torchtitan_keys(JobKeys& keys, const std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (!is_option_word(words[i]))
      throw InputError(fmt::format("'{}' is no option of torchtitan", one_line(words[i])),
                       "behind the file stand overrides such as --parallelism.tensor_parallel_degree 2");
    const std::size_t equals = words[i].find('=');
    std::string path = words[i].substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(path.begin(), path.end(), '-', '_');
    if (path.find('.') == std::string::npos)
      throw InputError(fmt::format("'--{}' is no option of torchtitan, whose options are SECTION.KEY", one_line(path)),
                       "options of this command stand before them too; panpipe import torchtitan --help lists these");
    if (equals != std::string::npos)
      keys.replace(path, words[i].substr(equals + 1));
    else if (i + 1 < words.size() && !is_option_word(words[i + 1]))
      keys.replace(path, words[++i]);
    else
      set_switch(keys, path);
  }
}

}  // namespace panpipe::jobs
