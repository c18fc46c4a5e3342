// The commands that a shell script would start, with their words expanded. The script is read, and nothing is run: variables,
// arrays, arithmetic, conditions, loops, functions and here-documents have the values that bash gives them, as far as they are
// known. Each word states where its text stands, so that an editor of the script finds the literal behind an argument:
//
//   LaunchScript script = read_launch_script(text, "train.sh", {.folder = "jobs"});
//   const Launch& launch = script.launches.front();
//   for (const ShellWord& word : launch.words)
//     if (const auto place = word.place()) ...   // bytes [place->begin, place->end) of place->file
//
// `TP=4` and `--tensor-model-parallel-size $TP`: the word "4" has the place of the 4 behind `TP=`. "$((A * B))" has no place.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "jobs/shell/shell_words.hpp"

namespace panpipe::jobs {

struct LaunchOptions {
  std::string folder = {};                          // the script's; files in and below it may be sourced. Empty: no file is read
  std::map<std::string, std::string> defines = {};  // values that hold whatever the script assigns
  std::map<int, std::string> arguments = {};        // the script's own arguments, from 1
  bool all_arguments = false;                       // `arguments` are all: others are empty, not unknown
};

struct Launch {
  std::vector<ShellWord> words;  // the program, its options and the arguments
  std::string file;
  int line = 0;
  std::vector<UnknownName> depends = {};  // conditions around it that are not known
  bool unlikely = false;                  // another way is taken where arguments and the environment state nothing
  std::vector<std::string> assumed = {};  // sentences about what its words took for granted
};

// A file that the script writes: `cat <<EOF > ds_config.json`.
struct WrittenFile {
  std::string name;  // as ShellWord::text of an argument that names it
  std::string text;
  bool known = true;  // false: `text` has unknown pieces, or is what a command wrote
};

struct LaunchScript {
  std::vector<Launch> launches;  // commands with options (--name), in order
  std::vector<WrittenFile> written;
  // Variables whose text holds options, of a script that starts nothing; in order of assignment.
  std::vector<ShellWord> loose_words;
  int nodes = 0, gpus_per_node = 0;  // of #SBATCH lines; 0: not stated
  std::vector<std::string> remarks;  // what was left out: files that are not read, where the text is no shell script
};

// Throws InputError for bytes that are no text, for more than 1 MiB, and for scripts whose values grow beyond all measure.
LaunchScript read_launch_script(const std::string& text, const std::string& name, const LaunchOptions& options = {});

}  // namespace panpipe::jobs
