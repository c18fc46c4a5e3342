#include <cctype>
#include <string>

#include "jobs/edit/base_job.hpp"
#include "jobs/megatron/decisions.hpp"
#include "jobs/megatron/export.hpp"
#include "jobs/shell/arguments.hpp"
#include "jobs/trainer_data.hpp"

namespace panpipe::jobs {
namespace {

// "Et*2|tL" -> "Ett|tL": without characters that a shell expands in the words of a string.
std::string spelt_out(const std::string& layout) {
  std::string text;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    if (layout[i] != '*') {
      text += layout[i];
      continue;
    }
    std::size_t end = i + 1;
    while (end < layout.size() && std::isdigit(static_cast<unsigned char>(layout[end])) != 0) ++end;
    text.append(std::stoul(layout.substr(i + 1, end - i - 1)) - 1, layout[i - 1]);
    i = end - 1;
  }
  return text;
}

std::vector<std::string> options_of(const std::vector<MegatronChange>& changes) {
  std::vector<std::string> options;
  for (const MegatronChange& change : changes) {
    options.insert(options.end(), change.removed.begin(), change.removed.end());
    for (const Argument& argument : change.wanted) options.push_back(argument.option);
  }
  return options;
}

EditAttempt megatron_attempt(const EditRequest& request, const std::vector<PlacedWord>& words,
                             const std::vector<MegatronChange>& changes, CommandStyle style) {
  CommandEdits edits(request.base.text, words, style);
  for (const MegatronChange& change : changes) {
    for (const std::string& option : change.removed) edits.remove(option);
    std::vector<Argument> wanted = change.wanted;
    for (Argument& argument : wanted)
      for (std::string& value : argument.values)
        if (!style.quotes) value = spelt_out(value);
    edits.set(wanted, change.decision->after);
  }
  TextEdits made = edits.edits();
  return {std::move(made), edits.by_hand(), options_of(changes)};
}

}  // namespace

std::vector<EditAttempt> edit_megatron(const EditRequest& request) {
  const std::vector<PlacedWord> words = placed_words(request.base.name, request.job.launch);
  const Arguments own(request.job.launch, request.base.name, argument_forms("megatron-core"));
  const std::vector<MegatronChange> changes = megatron_changes(request.before, request.after, own);
  std::vector<EditAttempt> attempts;
  for (const bool quotes : {true, false})
    for (const bool at_use : {false, true}) attempts.push_back(megatron_attempt(request, words, changes, {at_use, quotes}));
  return attempts;
}

}  // namespace panpipe::jobs
