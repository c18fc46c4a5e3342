// panpipe completion: the words that may follow, for shells. One walk over the declared verbs and options answers all shells; the
// scripts ask for it with `panpipe completion words -- WORD...`.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/input/shipped.hpp"
#include "cli/option_checks.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "schedule/schedule.hpp"
#include "study/arena/arena.hpp"

namespace panpipe::cli {
namespace {

constexpr const char* kBash = R"(# bash completion of panpipe: sourced by bash-completion, or by hand.
_panpipe() {
  local program=${1/#\~/$HOME} words=() word cut= i
  # Readline cuts words at = and :, panpipe does not.
  for ((i = 1; i <= COMP_CWORD; i++)); do
    word=${COMP_WORDS[i]}
    if ((${#words[@]})) && { [[ $word == [=:] ]] || [[ ${words[-1]} == *[=:] ]]; }; then words[-1]+=$word; else words+=("$word"); fi
  done
  word=${words[-1]}
  [[ $word == *[=:]* && $COMP_WORDBREAKS == *=* ]] && cut=${word%"${word##*[=:]}"}
  COMPREPLY=()
  local candidate path
  while IFS=$'\t' read -r candidate _; do
    if [[ $candidate == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r path; do COMPREPLY+=("$path"); done < <(compgen -f -- "${word#"$cut"}")
    else
      COMPREPLY+=("${candidate#"$cut"}")
    fi
  done < <("$program" completion words -- "${words[@]}" 2>/dev/null)
  [[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
  return 0
}
complete -F _panpipe panpipe
)";

constexpr const char* kZsh = R"(#compdef panpipe
# zsh completion of panpipe: found as _panpipe in $fpath.
_panpipe() {
  local line name text files=0
  local -a whole open
  for line in "${(@f)$("${(e)words[1]/#\~/$HOME}" completion words -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
    name=${line%%$'\t'*} text=${line#*$'\t'}
    case $name in
      '') ;;
      :files) files=1 ;;
      *=) open+=("$name") ;;
      *) whole+=("${name//:/\\:}:$text") ;;
    esac
  done
  (( $#whole )) && _describe panpipe whole
  (( $#open )) && compadd -S '' -a open
  (( files )) && _files
}
if [[ $funcstack[1] == _panpipe ]]; then _panpipe "$@"; else compdef _panpipe panpipe; fi
)";

constexpr const char* kFish = R"(# fish completion of panpipe.
function __panpipe_words
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in (command $words[1] completion words -- $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path "$current"
        else
            printf '%s\n' $line
        end
    end
end
complete -c panpipe -f -a '(__panpipe_words)'
)";

// The texts allowed at a place. Those that start with the typed text are offered.
struct Candidates {
  std::string typed;
  std::vector<std::string> lines;  // "word\tdescription"
  bool files = false;

  void offer(const std::string& word, const std::string& description = "") {
    if (word.starts_with(typed)) lines.push_back(word + "\t" + description.substr(0, description.find('\n')));
  }
};

void offer_schedules(Candidates& out, const std::string& before = "") {
  for (const ScheduleFamily& family : schedule_families())
    out.offer(before + std::string(family.name), std::string(family.summary));
}

// KEY=VALUE of --set and --over, as far as the values are names of what is shipped.
void offer_setting(Candidates& out) {
  struct Setting {
    const char *name, *folder;
  };
  constexpr Setting kKeys[] = {{"cluster", "clusters"},
                               {"framework", "frameworks"},
                               {"trainer", "trainers"},
                               {"calibration", "calibrations"},
                               {"run.price", "prices"}};
  const std::size_t equals = out.typed.find('=');
  const std::string key = out.typed.substr(0, equals);
  if (equals == std::string::npos) {
    for (const Setting& known : kKeys) out.offer(std::string(known.name) + "=");
    out.offer("schedule=");
    return;
  }
  // --over takes several, after commas.
  const std::string before =
      out.typed.substr(0, std::max(equals, out.typed.rfind(',') == std::string::npos ? 0 : out.typed.rfind(',')) + 1);
  if (key == "schedule") offer_schedules(out, before);
  for (const Setting& known : kKeys)
    if (key == known.name)
      for (const std::string& name : shipped_names(known.folder)) out.offer(before + name);
}

// The last of several names between commas.
void offer_listed(Candidates& out, const std::vector<std::string>& names) {
  const std::string before = out.typed.substr(0, out.typed.rfind(',') + 1);  // npos + 1 = 0
  for (const std::string& name : names) out.offer(before + name);
}

std::vector<std::string> names_of_cost_ratios() {
  std::vector<std::string> names;
  for (const study::CostRatio& ratio : study::cost_ratios()) names.push_back(ratio.name);
  return names;
}

// Choices that an option's type states: "local|gloo|nccl", or "TEXT:{fp32,bf16}" of CLI11's own check.
std::vector<std::string> stated_choices(const std::string& type) {
  std::string list = type;
  char between = '|';
  if (const std::size_t open = type.find('{'); open != std::string::npos) {
    list = type.substr(open + 1, type.find('}', open) - open - 1);
    between = ',';
  } else if (type.find('|') == std::string::npos) {
    return {};
  }
  std::vector<std::string> choices = CLI::detail::split(list, between);
  for (std::string& choice : choices) choice = choice.substr(0, choice.find("->"));
  return choices;
}

void offer_value(const CLI::Option& option, Candidates& out) {
  const std::string name = option.get_positional() ? option.get_name(true) : option.get_name();
  const std::string type = option.get_type_name();
  const auto is = [&](const char* word) { return name.find(word) != std::string::npos; };
  const auto stated = [&](const char* word) { return type.find(word) != std::string::npos; };
  if (is("--set") || is("--over")) return offer_setting(out);
  if (const std::vector<std::string> choices = stated_choices(type); !choices.empty()) {
    for (const std::string& choice : choices)
      if (choice == "DIR" || choice == "FILE")
        out.files = true;
      else
        out.offer(choice);
    return;
  }
  if (is("--device") || is("DEVICE")) return offer_listed(out, shipped_names("devices"));
  if (is("NAME_OR_FILE") || is("SCHEDULE")) offer_schedules(out);
  if (is("SCHEDULE"))
    for (const std::string& search : study::search_families()) out.offer(search, "searched orders of waves and loops");
  if (is("--cost-ratios")) return offer_listed(out, names_of_cost_ratios());
  if (is("--clusters")) return offer_listed(out, shipped_names("clusters"));
  if (is("SCENARIO") || stated("SCENARIO"))
    for (const char* folder : {"examples", "runs"})
      for (const std::string& each : shipped_names(folder))
        out.offer(std::string(folder) + "/" + each + ".yaml", "shipped scenario");
  // A positional argument of no stated type is a file in all verbs.
  out.files = stated("FILE") || stated("DIR") || stated("SCENARIO") || stated("CLUSTER") || option.get_positional();
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0 && option.get_type_size_max() > 0; }

// The verb and the place in it that `words` lead to, the last of them being typed.
Candidates words_after(const CLI::App& program, const std::vector<std::string>& words) {
  Candidates out;
  out.typed = words.empty() ? "" : words.back();
  const CLI::App* verb = &program;
  const CLI::Option* awaiting = nullptr;  // an option that waits for its value
  std::size_t positionals = 0;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (awaiting != nullptr) {
      awaiting = nullptr;
    } else if (word.starts_with("-") && word.size() > 1) {
      const CLI::Option* option = verb->get_option_no_throw(word.substr(0, word.find('=')));
      if (option != nullptr && takes_value(*option) && word.find('=') == std::string::npos) awaiting = option;
    } else if (const auto subs = verb->get_subcommands([&](const CLI::App* sub) { return sub->get_name() == word; });
               !subs.empty()) {
      verb = subs.front();
    } else {
      ++positionals;
    }
  }
  if (awaiting != nullptr) {
    offer_value(*awaiting, out);
    return out;
  }
  if (out.typed.starts_with("-")) {
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) out.offer("--" + name, option->get_description());
      for (const std::string& name : option->get_snames()) out.offer("-" + name, option->get_description());
    }
    return out;
  }
  const auto subs = verb->get_subcommands([](const CLI::App* sub) { return !sub->get_group().empty(); });
  for (const CLI::App* sub : subs) out.offer(sub->get_name(), sub->get_description());
  if (verb == &program) return out;
  std::vector<const CLI::Option*> places;
  for (const CLI::Option* option : verb->get_options())
    if (option->get_positional()) places.push_back(option);
  if (places.empty()) return out;
  // The last place may take many words.
  const CLI::Option& place = *places[std::min(positionals, places.size() - 1)];
  if (positionals < places.size() || place.get_expected_max() > 1) offer_value(place, out);
  return out;
}

}  // namespace

void add_completion_verb(CLI::App& sub, std::function<int()>& run) {
  struct Settings {
    std::string shell;
    std::vector<std::string> words;
  };
  auto settings = std::make_shared<Settings>();
  add_typed(sub, "SHELL", settings->shell, "the shell to print a script for", "bash|zsh|fish")->required();
  sub.add_option("WORDS", settings->words, "after `words --` instead of a shell: what may follow these words");
  run = [settings, &sub] {
    const std::string& shell = settings->shell;
    if (shell == "words") {
      const Candidates found = words_after(*sub.get_parent(), settings->words);
      std::string text;
      for (const std::string& line : found.lines) text += line + "\n";
      print(text + (found.files ? ":files\n" : ""));
      return 0;
    }
    if (shell != "bash" && shell != "zsh" && shell != "fish")
      throw InputError("panpipe completion: there is no script for '" + shell + "', only for bash, zsh and fish");
    print(shell == "bash" ? kBash : shell == "zsh" ? kZsh : kFish);
    return 0;
  };
}

}  // namespace panpipe::cli
