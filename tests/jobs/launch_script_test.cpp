// Shell scripts as their owners have them: what they would start, with values, unknowns and places.
#include "jobs/shell/launch_script.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::jobs {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The words behind `run` of each command that starts so, joined by '|'; commands by a line end.
std::string run_words(const std::string& text, const LaunchOptions& options = {}) {
  std::string all;
  for (const Launch& launch : read_launch_script(text, "job.sh", options).launches) {
    std::vector<std::string> words;
    for (const ShellWord& word : launch.words) words.push_back(word.text);
    all += fmt::format("{}{}", all.empty() ? "" : "\n", fmt::join(words, "|"));
  }
  return all;
}

TEST(LaunchScript, VariablesAndTheirDefaults) {
  EXPECT_EQ(run_words("TP=4; export PP=2\nrun --tp $TP --pp ${PP} --cp ${CP:-1}"), "run|--tp|4|--pp|2|--cp|1");
  EXPECT_EQ(run_words("run --a ${A:=3} --b $A --c ${A:+set} --d ${B-none}"), "run|--a|3|--b|3|--c|set|--d|none");
  EXPECT_EQ(run_words(": ${A:=5}\nrun --a ${A}"), "run|--a|5");
  EXPECT_EQ(run_words("A=1 B=2\nA=3 run --a $A$B"), "run|--a|12");
  EXPECT_EQ(run_words("unset A\nA+=x\nA+=y\nrun --a $A"), "run|--a|xy");
  EXPECT_EQ(run_words("F=a/b.tar.gz\nrun --a ${F##*/} ${F%.gz} ${F%%.*} ${F#a} ${F/b/c} ${#F} ${F:2:1} ${F: -2}"),
            "run|--a|b.tar.gz|a/b.tar|a/b|/b.tar.gz|a/c.tar.gz|10|b|gz");
  EXPECT_EQ(run_words("N=A; A=7; X=aB\nrun --a ${!N} ${X^^} ${X,} ${X^}"), "run|--a|7|AB|aB|AB");
}

TEST(LaunchScript, WordsAreSplitWhereNothingQuotesThem) {
  EXPECT_EQ(run_words("A=\" --x 1 \\\n  --y 2 \"\nrun $A --z \"$A\""), "run|--x|1|--y|2|--z| --x 1   --y 2 ");
  EXPECT_EQ(run_words("E=\nrun --a $E --b \"$E\" ''"), "run|--a|--b||");
  EXPECT_EQ(run_words("run --a 'x $A' \"\\$A \\\"b\\\"\" c\\ d e#f # $A"), "run|--a|x $A|$A \"b\"|c d|e#f");
  EXPECT_EQ(run_words("run --a {1..3} x{a,b}y $'t\\tu'"), "run|--a|1|2|3|xay|xby|t\tu");
}

TEST(LaunchScript, Arithmetic) {
  EXPECT_EQ(run_words("A=3\nrun --a $((A*2+1)) $(( $A ** 2 % 5 )) $((0x10|1)) $((A>2?10:20)) $((-7/2))"), "run|--a|7|4|17|10|-3");
  EXPECT_EQ(run_words("((A=5, B=A<<1)); let C=B-1; B=$((B+=1))\nrun --a $A $B $C"), "run|--a|5|11|9");
  EXPECT_EQ(run_words("A=B; B=C; C=4\nrun --a $((A+1))"), "run|--a|5");
  EXPECT_EQ(run_words("A=9223372036854775807\nrun --a $((A+1)) $((1<<62)) $((-9223372036854775808/-1))"),
            "run|--a|-9223372036854775808|4611686018427387904|-9223372036854775808");
  EXPECT_EQ(run_words("run --a $((1/0))"), "run|--a|$((...))");
}

TEST(LaunchScript, Arrays) {
  EXPECT_EQ(run_words("A=(--x 1 # one\n  --y \"2 3\")\nA+=(--z)\nrun ${A[@]} -- \"${A[@]}\" ${#A[@]} ${A[1]}"),
            "run|--x|1|--y|2|3|--z|--|--x|1|--y|2 3|--z|5|1");
  EXPECT_EQ(run_words("declare -A M=([a]=1 [b]=2)\nK=b\nM[c]=3\nrun --a ${M[$K]} ${M[c]}"), "run|--a|2|3");
  EXPECT_EQ(run_words("A=()\nrun --a \"${A[@]}\" ${A[@]+\"${A[@]}\"}"), "run|--a");
  EXPECT_EQ(run_words("A=(1 2 3 4)\nrun --a ${A[@]:1:2} ${A[-1]} \"${A[*]}\""), "run|--a|2|3|4|1 2 3 4");
  EXPECT_EQ(run_words("A=(1 2 3); IFS=,; X=${A[*]} Y=${A[@]}\nrun --a \"${A[*]}\" $(IFS=-; echo \"${A[*]}\") \"$X\" \"$Y\""),
            "run|--a|1,2,3|1-2-3|1,2,3|1 2 3");
}

TEST(LaunchScript, ConditionsOnKnownValues) {
  EXPECT_EQ(run_words("M=7B\nif [ $M = 1B ]; then L=1; elif [[ $M == 7* ]]; then L=32; else L=9; fi\nrun --l $L"), "run|--l|32");
  EXPECT_EQ(run_words("case 13B in 7B) L=1;; 1?B|30B) L=40;; *) L=0;; esac\nrun --l $L"), "run|--l|40");
  EXPECT_EQ(run_words("case a in a) L=1;& b) L+=2;& c) L+=3;; *) L=0;; esac\nrun --l $L"), "run|--l|123");
  EXPECT_EQ(run_words("case a in a) L=1;;& b) L+=2;; ?) L+=3;; *) L=0;; esac\nrun --l $L"), "run|--l|13");
  EXPECT_EQ(run_words("case a in a) false;;& b) true;; esac || L=1\nrun --l $L"), "run|--l|1");
  EXPECT_EQ(run_words("[ 3 -gt 2 ] && A=1 || A=2\n[[ -n \"\" || ! -z x ]] || B=2\nrun --a $A --b $B"), "run|--a|1|--b");
  EXPECT_EQ(run_words("if [ -z \"$NOWHERE\" ]; then A=default; fi\nrun --a $A"), "run|--a|default");
  EXPECT_EQ(run_words("X=true\nif $X; then A=1; fi\nrun --a $A"), "run|--a|1");
}

TEST(LaunchScript, LoopsAndFunctions) {
  EXPECT_EQ(run_words("for i in 1 2 3; do [ $i = 2 ] && continue; run --i $i; done"), "run|--i|1\nrun|--i|3");
  EXPECT_EQ(run_words("for ((i=0; i<3; i++)); do A+=$i; done\nrun --a $A"), "run|--a|012");
  EXPECT_EQ(run_words("i=0\nwhile [ $i -lt 3 ]; do i=$((i+1)); done\nuntil ((i==0)); do ((i--)); done\nrun --i $i"), "run|--i|0");
  EXPECT_EQ(run_words("f() { local a=$1; b=$2; shift; c=$1; }\na=0\nfunction g { f \"$@\"; }\ng 1 2\nrun --a $a $b $c"),
            "run|--a|0|2|2");
  EXPECT_EQ(run_words("f() { return 1; }\nf || A=1\n(A=2; B=2)\nrun --a $A $B"), "run|--a|1");
}

TEST(LaunchScript, TextThatIsRun) {
  EXPECT_EQ(run_words("C=\"run --a 1 &> log\"\necho $C --b\neval $C"), "run|--a|1");
  EXPECT_EQ(run_words("export L=\"run --n 2\" C=\"x.py --a 1\"\nsrun --jobid 3 bash -c \"$L --rank \\$R $C\" 2>&1 | tee log"),
            "run|--n|2|--rank|${R}|x.py|--a|1");
  EXPECT_EQ(run_words("export C=\"run --a 1\"; D=2\nbash -c '$C --d $D'"), "run|--a|1|--d");
  EXPECT_EQ(run_words("cat > go.sh <<EOF\nrun --a $1 \\$1\nEOF\nbash go.sh 5", {.arguments = {{1, "4"}}}), "run|--a|4|5");
  EXPECT_EQ(run_words("A=$(echo x; printf '%s-%d' a 3)\nrun --a $A `basename /p/q.sh .sh` $(dirname a/b)"), "run|--a|x|a-3|q|a");
}

TEST(LaunchScript, FilesThatTheScriptWrites) {
  const LaunchScript script = read_launch_script(
      "S=1\nF=ds.json\ncat <<EOT > $F\n{\"stage\": $S}\nEOT\nsed 's/1/2/' $F | sed \"s/stage/level/\" > b.json\nrun --config $F",
      "job.sh");
  ASSERT_EQ(script.written.size(), 2U);
  EXPECT_EQ(script.written[0].name, "b.json");
  EXPECT_EQ(script.written[0].text, "{\"level\": 2}\n");
  EXPECT_EQ(script.written[1].name, "ds.json");
  EXPECT_EQ(script.written[1].text, "{\"stage\": 1}\n");
  EXPECT_TRUE(script.written[1].known);
}

TEST(LaunchScript, TheMachineOfSlurm) {
  EXPECT_EQ(
      run_words("#!/bin/bash\n#SBATCH --nodes=4  # four\n#SBATCH --gres=gpu:a100:8\nrun --n $SLURM_NNODES $SLURM_GPUS_ON_NODE"),
      "run|--n|4|8");
}

TEST(LaunchScript, ArgumentsOfTheScript) {
  const std::string script =
      "while [[ $# -gt 0 ]]; do case $1 in --tp) TP=$2; shift 2;; *) shift;; esac; done\nrun --tp ${TP:-1}";
  EXPECT_EQ(run_words(script), "run|--tp|1");
  EXPECT_EQ(run_words(script, {.arguments = {{1, "--tp"}, {2, "8"}}, .all_arguments = true}), "run|--tp|8");
  EXPECT_EQ(run_words("if [ $# -lt 1 ]; then exit 1; fi\nrun --a ${1:-2} \"$@\"", {.arguments = {{1, "x y"}}}),
            "run|--a|x|y|x y");
  EXPECT_EQ(run_words("set -- 7 8\nrun --a $2"), "run|--a|8");
}

// Where it ends without a value, and starts nothing, the value is needed.
TEST(LaunchScript, AScriptThatEndsWithoutAValue) {
  EXPECT_EQ(run_words("if [ -z $ID ]; then sbatch \"$0\"; exit; fi\nrun --a 1"), "run|--a|1");
  EXPECT_EQ(run_words("usage() { echo no; exit 1; }\n[ -n \"$1\" ] || usage\n[[ -z $ID ]] && exit\nrun --a $1"), "run|--a|${1}");
  EXPECT_EQ(run_words("if [ -z $ID ]; then run --a; exit; fi\nrun --b"), "run|--a");
  EXPECT_EQ(run_words("ID=\nif [ -z $ID ]; then exit; fi\nrun --b"), "");
}

TEST(LaunchScript, AFileInsteadOfACommand) {
  EXPECT_EQ(run_words("echo 12 > n; run --a $(<n) $(< n)"), "run|--a|12|12");
  EXPECT_EQ(run_words("N=$(</etc/passwd)\nrun --a $N"), "run|--a|${N}");
}

TEST(LaunchScript, AnUnknownHasItsNameAndLine) {
  const LaunchScript script = read_launch_script("A=1\nB=$HERE\nrun --a $A --b x$B --c $1 --d $(nproc)", "job.sh");
  ASSERT_EQ(script.launches.size(), 1U);
  const std::vector<ShellWord>& words = script.launches[0].words;
  EXPECT_EQ(words[4].text, "x${HERE}");
  EXPECT_TRUE(words[4].expands);
  EXPECT_FALSE(words[4].stands_alone);
  ASSERT_EQ(words[4].pieces.size(), 2U);
  EXPECT_EQ(words[4].pieces[1].unknown->name, "HERE");
  EXPECT_EQ(words[4].pieces[1].unknown->line, 2);
  EXPECT_EQ(words[6].pieces[0].unknown->name, "1");
  EXPECT_TRUE(words[8].stands_alone);
  EXPECT_EQ(run_words("B=$HERE\nrun --b $B", {.defines = {{"HERE", "5"}}}), "run|--b|5");
  // A misspelt name would change nothing, and nobody would see it.
  EXPECT_THAT(test::fault_of([] {
                read_launch_script("TP=$N\nrun --tp $TP", "s.sh", {.defines = {{"TPP", "2"}}});
              }),
              HasSubstr("error: s.sh: the script has no variable 'TPP', did you mean 'TP'?"));
  EXPECT_EQ(run_words("A_2=1\nK=2\neval B=\\$A_$K\nrun --b $B", {.defines = {{"A_3", "5"}}}), "run|--b|1");
  EXPECT_EQ(run_words("B=$(nvidia-smi -L | wc -l)\nrun --b $B", {.defines = {{"B", "8"}}}), "run|--b|8");
}

// What both branches agree on is known; what differs is named after the variable that decides.
TEST(LaunchScript, BranchesThatAreNotDecided) {
  const auto launch = [](const std::string& text) { return read_launch_script(text, "job.sh").launches.at(0); };
  const Launch same = launch("if [ $M = 1 ]; then A=2; X=1; else A=2; fi\nrun --a $A");
  EXPECT_FALSE(same.words[2].expands);
  const Launch differs = launch("O=\"--x 1\"\nif [ $M = 1 ]; then O=\"$O --fp16\"; fi\nrun $O --a");
  EXPECT_EQ(differs.words[2].text, "1");
  ASSERT_TRUE(differs.words[3].stands_alone);
  EXPECT_EQ(differs.words[3].pieces[0].unknown->name, "M");
  EXPECT_THAT(differs.words[3].pieces[0].unknown->either, ElementsAre(" --fp16", ""));
  const Launch ended = launch("if [ $M = 1 ]; then A=1; else echo usage; exit 1; fi\nrun --a $A");
  EXPECT_EQ(ended.words[2].text, "1");
  const Launch absent = launch("if [ -f $HERE/x ]; then A=\"--load x\"; fi\nrun --a 1 $A");
  EXPECT_EQ(absent.words.size(), 3U);
  EXPECT_THAT(launch("if [ $M = 1 ]; then run --a; fi").depends[0].name, "M");
}

TEST(LaunchScript, EachWordHasThePlaceOfItsText) {
  const std::string text = "TP=4\r\nARGS=\"--tp $TP --pp=2\"\r\nrun $ARGS --x 'é' --y $((TP*2)) --z \"a$TP\"\r\n";
  const LaunchScript script = read_launch_script(text, "job.sh");
  ASSERT_EQ(script.launches.size(), 1U);
  const std::vector<ShellWord>& words = script.launches[0].words;
  const auto at = [&](const ShellWord& word, std::size_t from = 0) {
    const auto place = word.place(from);
    return place ? fmt::format("{}:{}:{}", text.substr(place->begin, place->end - place->begin), place->line, place->column)
                 : "none";
  };
  EXPECT_EQ(at(words[1]), "--tp:2:7");
  EXPECT_EQ(at(words[2]), "4:1:4");
  EXPECT_EQ(at(words[3]), "--pp=2:2:16");
  EXPECT_EQ(at(words[3], 5), "2:2:21");
  EXPECT_EQ(at(words[3].without_first(5)), "2:2:21");
  EXPECT_EQ(at(words[5]), "é:3:16");
  EXPECT_EQ(at(words[7]), "none");
  EXPECT_EQ(at(words[9]), "none");
}

class SourcedFiles : public ::testing::Test {
 protected:
  LaunchScript read(const std::string& text) { return read_launch_script(text, "job.sh", {.folder = folder_.file("jobs")}); }
  void SetUp() override {
    folder_.write("outside.sh", "A=outside");
    folder_.write("jobs/conf/inside.sh", "A=inside");
    folder_.write("jobs/conf/wrapper.sh", "source env.sh\npython \"$@\" > log");
    std::filesystem::create_symlink("../outside.sh", folder_.path() / "jobs/link.sh");
  }
  test::TemporaryFolder folder_;
};

TEST_F(SourcedFiles, AScriptThatALauncherStarts) {
  const auto program = [&](const std::string& text) { return read(text).launches.at(0).words.front().text; };
  EXPECT_EQ(program("srun --label singularity exec -B x:y image ./conf/wrapper.sh x.py --a 1"), "python");
  EXPECT_EQ(program("srun --label ./absent.sh x.py --a 1"), "srun");
  EXPECT_EQ(program("deepspeed x.py --script conf/wrapper.sh"), "deepspeed");
}

TEST_F(SourcedFiles, OnlyBesideTheScriptAndBelow) {
  const auto word = [&](const std::string& line) { return read(line + "\nrun --a $A").launches.at(0).words.back().text; };
  EXPECT_EQ(word("source conf/inside.sh"), "inside");
  EXPECT_EQ(word(". \"$(dirname \"${BASH_SOURCE[0]}\")/conf/inside.sh\""), "inside");
  EXPECT_EQ(word("cd conf && source ./inside.sh"), "inside");
  for (const char* path : {"../outside.sh", "conf/../../outside.sh", "link.sh", "/etc/passwd", "."}) {
    const LaunchScript script = read(fmt::format("source {}\nrun --a $A", path));
    EXPECT_EQ(script.launches.at(0).words.back().text, "${A}") << path;
    EXPECT_THAT(script.remarks, ElementsAre(HasSubstr("is not read: it is no file beside the script or below it")));
  }
  EXPECT_EQ(read("A=$(cat ../outside.sh)\nrun --a $A").launches.at(0).words.back().text, "${A}");
}

// Hostile scripts end in an error or an answer, soon.
TEST(LaunchScript, WorkIsBounded) {
  const auto fault = [](const std::string& text) { return test::fault_of([&] { read_launch_script(text, "job.sh"); }); };
  std::string doubled = "x=aaaaaaaaaaaaaaaa\n";
  for (int i = 0; i < 40; ++i) doubled += "x=$x$x\n";
  EXPECT_THAT(fault(doubled), HasSubstr("a value grows beyond 1 MiB"));
  EXPECT_THAT(fault("while true; do x=$x; done"), HasSubstr("the script takes too many steps to follow"));
  EXPECT_THAT(fault("for ((;;)); do :; done"), HasSubstr("the script takes too many steps to follow"));
  EXPECT_THAT(fault("f() { f; }\nf"), HasSubstr("deep in each other"));
  EXPECT_THAT(fault("f() { f \"$@\" \"$@\"; }\nf 1"), HasSubstr("the script takes too many steps to follow"));
  EXPECT_THAT(fault("set 1\nwhile :; do set -- \"$@\" \"$@\"; done"), HasSubstr("the script takes too many steps to follow"));
  EXPECT_THAT(fault("e='eval \"$e\"'\neval \"$e\""), HasSubstr("deep in each other"));
  EXPECT_THAT(fault(std::string((1 << 20) + 1, 'a')), HasSubstr("a script of more than 1 MiB is none"));
  EXPECT_EQ(run_words("a=b+b; b=c+c; c=d+d; d=e+e; e=f+f; f=g+g; g=h+h; h=a\nrun --a $((a))"), "run|--a|$((...))");
  for (const char* open : {"(", "{ ", "$(", "if ", "\"$(", "${a:-", "$((", "[[ ( ", "a=(", "case x in x) "}) {
    std::string nested;
    for (int i = 0; i < 5000; ++i) nested += open;
    const LaunchScript script = read_launch_script("run --a 1\n" + nested, "job.sh");
    EXPECT_EQ(script.launches.size(), 1U) << open;
    EXPECT_THAT(script.remarks, ElementsAre(HasSubstr("a shell stops here"))) << open;
  }
}

// The work of a condition that is not known is that of what its branches change.
TEST(LaunchScript, ManyConditionsThatAreNotKnown) {
  std::string text, subshells, arms = "case x in ";
  for (int i = 0; i < 1900; ++i) {
    text += fmt::format("if [ \"$U\" = {} ]; then A{}=1; else A{}=2; fi\n", i, i, i);
    subshells += fmt::format("f{}() {{ :; }}\nA{}=$(f{})\n", i, i, i);
    arms += "a) A=1;; ";
  }
  EXPECT_EQ(read_launch_script(text + subshells + arms + "x) A=2;; esac\nrun --a $A", "job.sh").launches.at(0).words[2].text,
            "2");
}

TEST(LaunchScript, TextThatIsNoScript) {
  const LaunchScript script = read_launch_script("A=1\nrun --a $A\nif then\nrun --b", "job.sh");
  EXPECT_EQ(script.launches.size(), 1U);
  EXPECT_THAT(script.remarks, ElementsAre("job.sh:3: a condition is missing; a shell stops here"));
  EXPECT_THAT(read_launch_script("", "job.sh").launches, IsEmpty());
}

}  // namespace
}  // namespace panpipe::jobs
