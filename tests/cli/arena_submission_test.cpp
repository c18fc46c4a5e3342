// panpipe arena --submit: orders that are handed in, and what is wrong with those that cannot be judged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

const std::string kRows = "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n";
const std::string kNamed = "# by: A. Person\n# reference: https://example.org\n";

std::string order_in_python(const std::string& body) {
  return "BY, REFERENCE = 'A. Person', 'https://example.org'\n\n\ndef order(ranks, microbatches):\n" + body;
}

// Into a certificate of the test's own.
auto submitted(const std::string& file, const std::string& more = "") {
  return panpipe("arena --alone --clusters none --submit " + file + " --certificate " + scratch().file("handed-in.json") + " " +
                 more);
}

nlohmann::json certificate() { return nlohmann::json::parse(read_file(scratch().file("handed-in.json"))); }

// 1F1B of 2 ranks and 2 microbatches: (2 + 2 - 1) 3 = 9, 2 held.
TEST(Submission, OfACsvFile) {
  const auto done = submitted(scratch().write("handed-in.csv", kNamed + kRows));
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("handed-in.json: tools/check-certificate counts it again\n"));
  EXPECT_EQ(certificate()["by"], "A. Person");
  EXPECT_EQ(certificate()["reference"], "https://example.org");
  EXPECT_EQ(certificate()["makespan"], 9);
  EXPECT_EQ(certificate()["held"], 2);
  EXPECT_EQ(submitted(scratch().write("handed-in.csv", kNamed + kRows), "--by B").exit_code, 0);
  EXPECT_EQ(certificate()["by"], "B");
}

TEST(Submission, OfAPythonFile) {
  const std::string rows = "    return [[f'{r}{kind}{m}' for kind in 'FB' for m in range(microbatches)] for r in range(ranks)]\n";
  const auto done =
      submitted(scratch().write("handed_in.py", order_in_python("    print('ignored')\n" + rows)), "--ranks 3 --microbatches 5");
  EXPECT_EQ(done.exit_code, 0) << done.err;
  EXPECT_EQ(certificate()["makespan"], (5 + 3 - 1) * 3);  // GPipe
  EXPECT_EQ(certificate()["held"], 5);
  // An order for each ratio, as text: with cheap weight gradients another one.
  const std::string by_costs =
      "BY = REFERENCE = 'me'\n\n\ndef order(ranks, microbatches, costs):\n"
      "    return '0F0,0I0,0W0\\n' if costs['W'] < 1 else '0F0,0B0\\n'\n";
  const auto each =
      submitted(scratch().write("handed_in.py", by_costs), "--ranks 1 --microbatches 1 --cost-ratios 1:1:0.5,even --json");
  EXPECT_EQ(each.exit_code, 0) << each.err;
  EXPECT_EQ(certificate()["rows"][0], nlohmann::json({"0F0", "0I0", "0W0"}));
}

TEST(Submission, ThatSaysMuchIsReadWhole) {
  const std::string file =
      scratch().write("long.py", "BY, REFERENCE = 'x' * (5 << 20), 'me'\n\n\ndef order(ranks, microbatches):\n" +
                                     std::string("    return [['0F0', '0B0']]\n"));
  const auto done = submitted(file, "--ranks 1 --microbatches 1 --json");
  EXPECT_EQ(done.exit_code, 0) << done.err.substr(0, 400);
  EXPECT_EQ(certificate()["by"].get<std::string>().size(), 5U << 20);
}

TEST(Submission, ThatIsNotLegalGetsNoCertificate) {
  const std::string path = scratch().file("none.json");
  const std::string file = scratch().write("dead.csv", kNamed + "0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  const auto done = panpipe("arena --alone --clusters none --submit " + file + " --certificate " + path);
  EXPECT_EQ(done.exit_code, 1);
  EXPECT_THAT(done.out, HasSubstr("dead.csv: not legal: rank 0: step 1: 0B0 the order cannot finish"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(BadSubmission, IsRefusedWithPlaceAndRemedy) {
  const auto fault = [](const std::string& name, const std::string& text) {
    const auto done = submitted(scratch().write(name, text), "--ranks 2 --microbatches 2");
    EXPECT_EQ(done.exit_code, 2) << name << ": " << done.out;
    EXPECT_THAT(done.err, testing::Not(HasSubstr("Traceback")));
    return done.err;
  };
  EXPECT_THAT(fault("unnamed.csv", kRows),
              EndsWith("unnamed.csv: it does not name its author\n  help: write a line '# by: ...' in it, or give --by\n"));
  EXPECT_THAT(
      fault("nobody.py", "BY = 'me'\ndef order(ranks, microbatches):\n    return '0F0,0B0\\n'\n"),
      EndsWith("nobody.py: it does not name its reference\n  help: write REFERENCE = \"...\" in it, or give --reference\n"));
  EXPECT_THAT(fault("order.txt", kRows), HasSubstr("is neither a .csv nor a .py file"));
  EXPECT_THAT(fault("junk.csv", kNamed + "0F0,zwei\n"), HasSubstr("junk.csv:3"));
  EXPECT_THAT(fault("syntax.py", "BY = 'me\n"), HasSubstr("syntax.py:1: SyntaxError: unterminated string literal"));
  EXPECT_THAT(fault("empty.py", "BY = REFERENCE = 'me'\n"),
              HasSubstr("empty.py: there is no function order(ranks, microbatches)\n  help: order(ranks, microbatches) returns"));
  EXPECT_THAT(fault("raises.py", order_in_python("    return rank\n")), HasSubstr("raises.py:5: NameError: name 'rank' is not"));
  EXPECT_THAT(fault("number.py", order_in_python("    return 7\n")),
              HasSubstr("number.py: TypeError: 'int' object is not iterable"));
  EXPECT_THAT(fault("exit.py", "import sys\nsys.exit('no')\n"), HasSubstr("exit.py:2: SystemExit: no"));
  EXPECT_THAT(fault("gone.py", "import os\nos._exit(3)\n"), HasSubstr("gone.py: Python ends with code 3 and no order"));
  EXPECT_THAT(fault("own.py", "import __main__\n__main__.end(orders=[1])\n"), HasSubstr("own.py: it answers in its own way"));
  EXPECT_THAT(fault("full.py", order_in_python("    return ['0F0' * (1 << 40)]\n")), HasSubstr("full.py:5: MemoryError"));
  EXPECT_THAT(fault("loud.py", order_in_python("    while True:\n        print('x' * 1000)\n")),
              HasSubstr("loud.py:6: OSError: [Errno 27] File too large"));
  EXPECT_THAT(fault("cell.py", order_in_python("    return [['0F0', '0Q0']]\n")), HasSubstr("cell.py, order:1"));
  EXPECT_THAT(fault("sizes.py", order_in_python("    return [['0F0', '0B0']]\n")),
              HasSubstr("sizes.py has 1 ranks and 1 microbatches, the arena 2 and 2"));
}

}  // namespace
}  // namespace panpipe::test
