// Random small scripts: their commands get the words that bash gives them. The commands are functions that print their words.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <random>
#include <string>

#include "jobs/shell/launch_script.hpp"
#include "jobs/shell/shell_pattern.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::jobs {
namespace {

class Scripts {
 public:
  explicit Scripts(unsigned seed) : random_(seed) {}

  std::string script() {
    std::string text = "A=1 B=two C='x y' D=\nL=(p 'q r' s)\n";
    const int count = 3 + number(6);
    for (int i = 0; i < count; ++i) text += statement(2) + "\n";
    return text + "run --end $A \"$B\" $C \"$D\" \"${L[@]}\" ${#L[@]}\n";
  }

 private:
  int number(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }
  std::string name() { return std::string(1, "ABCD"[number(4)]); }

  std::string expression() {
    static const char* const kOperators[] = {"+", "-", "*", "<<", "|", "&&", "==", ">", "%7+"};
    return fmt::format("{}{}{}", 1 + number(9), kOperators[number(9)], 1 + number(9));
  }

  std::string expansion() {
    const std::string n = name();
    switch (number(14)) {
      case 0:
        return "${" + n + ":-d e}";
      case 1:
        return "${" + n + ":+" + name() + "}";
      case 2:
        return "${" + n + "%?}";
      case 3:
        return "${" + n + "##*[x1]}";
      case 4:
        return "${" + n + "/[a-x]/_}";
      case 5:
        return "${" + n + "//[!y]/-}";
      case 6:
        return "${#" + n + "}";
      case 7:
        return "$((" + expression() + "))";
      case 8:
        return "${L[" + std::to_string(number(3)) + "]}";
      case 9:
        return "$(echo " + n + " \"$" + n + "\")";
      case 10:
        return "${" + n + ":1:2}";
      case 11:
        return "${" + n + "^^}";
      default:
        return "$" + n;
    }
  }

  std::string word() {
    switch (number(8)) {
      case 0:
        return "'" + name() + " $x'";
      case 1:
        return "\"" + expansion() + " " + expansion() + "\"";
      case 2:
        return "\"\"";
      case 3:
        return "a\\ b" + expansion();
      case 4:
        return "{1," + name() + "}";
      case 5:
        return "\"${L[@]}\"";
      default:
        return expansion();
    }
  }

  std::string condition() {
    switch (number(6)) {
      case 0:
        return "[ \"$" + name() + "\" = \"" + (number(2) ? "two" : "1") + "\" ]";
      case 1:
        return "[[ $" + name() + " == t* && -n $" + name() + " ]]";
      case 2:
        return "[ -z \"$" + name() + "\" ]";
      case 3:
        return "((" + expression() + "))";
      case 4:
        return "! [ " + std::to_string(number(5)) + " -lt " + std::to_string(number(5)) + " ]";
      default:
        return "[[ ! ( $" + name() + " < m || 1 -eq " + std::to_string(number(2)) + " ) ]]";
    }
  }

  std::string statement(int depth) {
    const auto inner = [&] { return statement(depth - 1); };
    switch (number(depth > 0 ? 14 : 6)) {
      case 0:
        return name() + "=" + word_alone();
      case 1:
        return name() + "+='u v'";  // of fixed size, so that loops make nothing huge
      case 2:
        return "L+=(" + word() + " " + word() + ")";
      case 3:
        return "run --w " + word() + " " + word();
      case 4:
        return name() + "=$((" + expression() + "))";
      case 5:
        return "L=(" + word() + ")";
      case 6:
        return "if " + condition() + "; then " + inner() + "; else " + inner() + "; fi";
      case 7:
        return "for i in " + word() + " z; do " + inner() + "; run --i \"$i\"; done";
      case 8:
        return "case \"$" + name() + "\" in t*|1) " + inner() + end_of_arm() + "'') " + inner() + end_of_arm() + "*) " + inner() +
               end_of_arm() + "o*) " + inner() + "; esac";
      case 9:
        return "{ f() { local A=$1; " + inner() + "; run --f \"$@\" $A; }; f " + word() + " " + word() + "; }";
      case 10:
        return condition() + " && " + inner() + " || " + name() + "=or";
      case 11:
        return "(" + inner() + "; " + inner() + ")";
      case 12:
        return "E='run --e $" + name() + " \"$" + name() + "\"'; eval \"$E\"";
      default:
        return "n=0; while [ $n -lt 2 ]; do n=$((n+1)); " + inner() + "; done";
    }
  }

  std::string end_of_arm() {
    const int kind = number(6);
    return kind == 0 ? " ;& " : kind == 1 ? " ;;& " : " ;; ";
  }

  // Of an assignment: nothing is split, and braces stay.
  std::string word_alone() { return number(2) ? "\"" + expansion() + "\"" : expansion(); }

  std::mt19937 random_;
};

std::string words_of(const std::string& script) {
  std::string all;
  for (const Launch& launch : read_launch_script(script, "job.sh").launches) {
    for (std::size_t i = 1; i < launch.words.size(); ++i) all += launch.words[i].text + "|";
    all += "\n";
  }
  return all;
}

TEST(LaunchScript, ItsWordsAreThoseOfBash) {
  if (!std::filesystem::exists("/bin/bash")) GTEST_SKIP() << "there is no /bin/bash to compare with";
  constexpr int kScripts = 400;
  Scripts source(7);
  std::vector<std::string> scripts;
  std::string all = "run() { printf '%s|' \"$@\"; echo; }\n";
  for (int i = 0; i < kScripts; ++i) {
    scripts.push_back(source.script());
    all += fmt::format("(\n{}\n)\nprintf '\\001'\n", scripts.back());
  }
  const test::TemporaryFolder folder;
  const std::string file = folder.write("all.sh", all), output = folder.file("output");
  ASSERT_EQ(std::system(
                fmt::format("cd '{}' && env -i /bin/bash '{}' > '{}' 2>/dev/null", folder.path().string(), file, output).c_str()),
            0);
  const std::string printed = test::read_file(output);
  std::size_t begin = 0;
  for (const std::string& script : scripts) {
    const std::size_t end = printed.find('\x01', begin);
    ASSERT_NE(end, std::string::npos);
    EXPECT_EQ(words_of(script), printed.substr(begin, end - begin)) << script;
    begin = end + 1;
  }
}

// Sets of one to three elements against one character each. Negated ones have a last one more: in bash 5.2 a negated set that
// ends in [=c=] matches nothing.
TEST(LaunchScript, ItsPatternsAreThoseOfBash) {
  if (!std::filesystem::exists("/bin/bash")) GTEST_SKIP() << "there is no /bin/bash to compare with";
  constexpr const char* kElements[] = {"a", "b-d", "[:digit:]", "[=c=]", "[.-.]", "[.a.]-[.c.]", "[.].]", "\\]", "="};
  std::mt19937 random(5);
  std::string script = "t() { case $1 in $2) printf y;; *) printf n;; esac; }\n", ours;
  for (int i = 0; i < 600; ++i) {
    const bool negated = random() % 4 == 0;
    std::string pattern = negated ? "[!" : "[";
    for (std::size_t e = 0; e <= random() % 3; ++e) pattern += kElements[random() % std::size(kElements)];
    pattern += negated ? "9]" : "]";
    const std::string text(1, "abcd-]=.19"[random() % 10]);
    script += fmt::format("t '{}' '{}'\n", text, pattern);
    ours += matches_pattern(text, pattern) ? 'y' : 'n';
  }
  const test::TemporaryFolder folder;
  const std::string file = folder.write("all.sh", script), output = folder.file("output");
  ASSERT_EQ(std::system(fmt::format("env -i /bin/bash '{}' > '{}'", file, output).c_str()), 0);
  EXPECT_EQ(ours, test::read_file(output));
}

}  // namespace
}  // namespace panpipe::jobs
