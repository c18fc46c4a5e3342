// The page: what it holds for one result and for two, and that nothing in a document becomes markup or script.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/quantity_text.hpp"
#include "base/text/run_quantity_text.hpp"
#include "present/picture/timeline_picture.hpp"
#include "study/report/editable_page.hpp"
#include "study/report/report.hpp"
#include "tests/cli/program.hpp"
#include "tests/present/page/page_markup.hpp"

namespace panpipe::study {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kGpt2 = "scenarios/examples/gpt2-large-rtx3090x8.yaml";

std::string folder_of(const std::string& verb) {
  const std::string folder = test::temporary_folder();
  const test::Outcome run = test::panpipe(verb + " " + kGpt2 + " -o " + folder);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return folder;
}

TEST(Report, OfOneResult) {
  const std::string folder = folder_of("estimate");
  const std::string page = to_report_page({read_report_input(folder)});
  EXPECT_EQ(page, to_report_page({read_report_input(folder + "/result.json")}));
  EXPECT_THAT(page, HasSubstr("<h1>gpt2-large (774.0 M) on 8 x RTX3090: " +
                              to_text(present::read_result(folder).timeline.step_time) + "</h1>"));
  for (const char* heading : {"The step", "Where the time goes", "What would help", "Critical path", "Links and traffic",
                              "Memory at the peak", "Assumptions in force"})
    EXPECT_THAT(page, HasSubstr(std::string(heading) + "</h2>"));
  EXPECT_THAT(page, Not(HasSubstr("Side by side</h2>")));
  EXPECT_THAT(page, HasSubstr("# scenarios/examples/gpt2-large-rtx3090x8.yaml:"));  // an origin in the resolved scenario
  EXPECT_EQ(present::count(page, R"("name":"rank )"), 8U) << "lanes of the timeline";
  EXPECT_EQ(present::count(page, "</script>"), 1U);
  for (const char* loading : {"src=\"http", "@import", "url("}) EXPECT_THAT(page, Not(HasSubstr(loading)));
}

// The links of the traffic are in the document: stages of the example follow bridges, sockets and the way between those.
TEST(Report, KnowsWhatTheTrafficCrosses) {
  const std::string folder = folder_of("estimate");
  const present::ResultDocument result = present::read_result(folder);
  ASSERT_EQ(result.paths.size(), 2U) << "one replica, whole layers";
  EXPECT_THAT(result.paths.at("data"), ::testing::ElementsAre("host-sockets")) << "the embedding that both ends share";
  EXPECT_THAT(result.paths.at("pipeline"), ::testing::ElementsAre("bridge", "host", "host-sockets"));
  const std::string pairs = test::temporary_folder();
  ASSERT_EQ(
      test::panpipe("estimate " + kGpt2 + " --set 'parallel={pipeline: 2, data: 2, tensor: 2}' --set schedule=1f1b -o " + pairs)
          .exit_code,
      0);
  const present::ResultDocument split = present::read_result(pairs);
  EXPECT_THAT(split.paths.at("tensor"), ::testing::ElementsAre("bridge"));
  EXPECT_THAT(split.paths.at("data"), ::testing::ElementsAre("host"));
  EXPECT_THAT(split.paths.at("pipeline"), ::testing::ElementsAre("host-sockets"));
}

TEST(Report, OfTwoResults) {
  const std::string page = to_report_page({read_report_input(folder_of("estimate")), read_report_input(folder_of("estimate"))});
  EXPECT_EQ(present::count(page, R"("name":"rank )"), 16U) << "one above the other";
  for (const char* detail : {R"("detail":"estimated A, stage 0")", R"("detail":"estimated B, stage 0")"})
    EXPECT_THAT(page, HasSubstr(detail));
  EXPECT_THAT(page, HasSubstr("Side by side</h2>"));
}

// Two stages on devices 0-3 and 4-7, four replicas each, and eight stages on devices 0-7: by their devices ranks 1 to 3 of the
// second plan would stand under replicas of rank 0 of the first, which have no spans of their own.
TEST(Report, RanksOfTwoPlansStandUnderEachOther) {
  const std::string wide = test::temporary_folder(), deep = folder_of("estimate");
  ASSERT_EQ(
      test::panpipe("estimate " + kGpt2 + " --set 'parallel={pipeline: 2, data: 4}' --set schedule=1f1b -o " + wide).exit_code,
      0);
  const std::vector<ReportInput> inputs = {read_report_input(wide), read_report_input(deep)};
  const std::vector<present::RankRow> rows = present::rows_by_rank({&inputs[0].result.timeline, &inputs[1].result.timeline});
  ASSERT_EQ(rows.size(), 8U);
  for (std::size_t rank = 0; rank < 8; ++rank) {
    EXPECT_EQ(rows[rank].rank, static_cast<int>(rank));
    ASSERT_TRUE(rows[rank].of[1]);
    EXPECT_EQ(rows[rank].of[1]->device->rank, static_cast<int>(rank));
    EXPECT_EQ(rows[rank].of[0].has_value(), rank < 2) << "the first plan has two ranks, and each is drawn once";
  }
  EXPECT_EQ(rows[1].of[0]->device->device, 4);
  EXPECT_EQ(rows[1].of[0]->text(), "stage 1");
  const std::string page = to_report_page(inputs);
  EXPECT_EQ(present::count(page, R"("detail":"estimated A, stage )"), 2U);
  EXPECT_EQ(present::count(page, R"("detail":"estimated B, stage )"), 8U);
  for (const char* bar : {"estimated A: rank 1, device 4", "estimated B: rank 1, device 1", "estimated B: rank 7, device 7"})
    EXPECT_THAT(page, HasSubstr(bar));
  EXPECT_THAT(page, Not(HasSubstr("estimated A: rank 0, device 1")));
}

// A step of no time, or of less, is none: the user who edited it gets a message.
TEST(Report, RefusesAStepOfNegativeTime) {
  const std::string folder = folder_of("estimate");
  std::string text = test::read_file(folder + "/result.json");
  const std::size_t at = text.find("\"step_time_s\": ") + 15;
  text.replace(at, text.find(',', at) - at, "-5");
  test::write_file(folder + "/result.json", text);
  const test::Outcome run = test::panpipe("report " + folder + " -o " + folder + "/page.html");
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("this result is broken: metrics.step_time_s is -5, and a step takes longer than no time"));
}

TEST(Report, WithoutATimelineReportsHowToGetOne) {
  const std::string file = test::temporary_folder() + "/result.json";
  ASSERT_EQ(test::panpipe("estimate " + kGpt2 + " --json", file).exit_code, 0);
  const std::string page = to_report_page({read_report_input(file)});
  EXPECT_THAT(page, HasSubstr("make it with -o DIR (of a very long step with --all-spans), or with --json --timeline"));
  EXPECT_THAT(page, HasSubstr("the resolved scenario is not beside the result"));
  EXPECT_THAT(page, Not(HasSubstr("id=\"step\"")));
}

TEST(Report, NamesFromDocumentsStayText) {
  const std::string folder = folder_of("estimate");
  std::string text = test::read_file(folder + "/result.json");
  const std::string evil = "</script><img src=x onerror=alert(1)>";
  text.replace(text.find(kGpt2), kGpt2.size(), evil);
  const std::string action = "\"action\": \"0F0\"";
  ASSERT_NE(text.find(action), std::string::npos);
  text.replace(text.find(action), action.size(), "\"action\": \"" + evil + "\"");
  test::write_file(folder + "/result.json", text);
  test::write_file(folder + "/plan.yaml", evil);
  const std::string page = to_report_page({read_report_input(folder)});
  EXPECT_THAT(page, testing::Not(HasSubstr("<img src=x")));
  EXPECT_EQ(present::count(page, "</script>"), 1U);
}

// The files stand before the page's own module, and read back as they are; none of their texts ends the script around them.
TEST(EditablePage, HoldsTheResultAndItsScenario) {
  const std::string folder = folder_of("estimate");
  std::string text = test::read_file(folder + "/result.json");
  text.replace(text.find(kGpt2), kGpt2.size(), "</script><img src=x>");
  test::write_file(folder + "/result.json", text);
  const std::string page = with_result("<head><script type=\"module\">module</script>", folder), begin = "id=\"inside\">";
  EXPECT_EQ(present::count(page, "</script>"), 2U);
  EXPECT_LT(page.find(begin), page.find("<script type=\"module\">"));
  const std::size_t from = page.find(begin) + begin.size();
  const auto inside = nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  EXPECT_EQ(inside["result"], text);
  EXPECT_THAT(inside["scenario"].get<std::string>(), HasSubstr("\ncluster: clusters/rtx3090x8.yaml "));
  EXPECT_TRUE(inside["files"].empty()) << "all are shipped";
  EXPECT_EQ(inside["name"], "</script><img src=x>");
}

// A file of one's own comes along, by its name; one that has changed since does not.
TEST(EditablePage, BringsFilesThatAreNotShipped) {
  const std::string folder = test::temporary_folder(), cluster = folder + "/mine.yaml";
  std::string text = test::read_file("../scenarios/clusters/rtx3090x8.yaml");
  test::write_file(cluster, text + "# mine\n");
  ASSERT_EQ(test::panpipe("estimate " + kGpt2 + " --set cluster=" + cluster + " -o " + folder + "/out").exit_code, 0);
  const auto inside = [&] {
    const std::string page = with_result("<script type=\"module\">", folder + "/out"), begin = "id=\"inside\">";
    const std::size_t from = page.find(begin) + begin.size();
    return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
  };
  EXPECT_EQ(inside()["files"]["mine.yaml"], text + "# mine\n");
  EXPECT_THAT(inside()["scenario"].get<std::string>(), HasSubstr("cluster: mine.yaml "));
  test::write_file(cluster, text + "# another\n");
  EXPECT_TRUE(inside()["files"].empty());
  EXPECT_THAT(inside()["scenario"].get<std::string>(), HasSubstr(cluster));
}

TEST(EditablePage, NeedsTheScenarioAndTheModule) {
  const std::string file = test::temporary_folder() + "/result.json";
  ASSERT_EQ(test::panpipe("estimate " + kGpt2 + " --json", file).exit_code, 0);
  try {
    with_result("<script type=\"module\">", file);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no scenario.yaml next to the result"));
  }
  EXPECT_THROW(with_result("<html></html>", folder_of("estimate")), MachineError);
  EXPECT_THAT(test::panpipe("report " + file + " " + file + " --editable -o page.html").err, HasSubstr("give one result"));
}

// A scenario that states a run: its days and its price stand on the page as in the table.
TEST(Report, StatesTheRun) {
  const std::string folder = test::temporary_folder() + "/run";
  const test::Outcome run = test::panpipe(
      "estimate scenarios/examples/gpt2-large-rtx3090x8.yaml --set run.steps=1000000 --set 'run.price=0.5 USD' -o " + folder);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const present::ResultDocument result = present::read_result(folder);
  double days = 0, money = 0;
  for (const auto& [name, value] : result.metrics) {
    if (name == "run_time_s") days = value / 86400;
    if (name == "cost") money = value;
  }
  EXPECT_NEAR(money, days * 24 * 8 * 0.5, 1e-6 * money);
  const std::string page = to_report_page({read_report_input(folder)});
  EXPECT_THAT(page, HasSubstr("the run"));
  EXPECT_THAT(page, HasSubstr(long_time_text(days * 86400)));
  EXPECT_THAT(page, HasSubstr(money_text(money, "USD")));
}

TEST(ReportVerb, WritesThePageAndExplainsWhatIsMissing) {
  const std::string folder = folder_of("estimate");
  const test::Outcome run = test::panpipe("report " + folder + " -o " + folder + "/page.html");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "written to " + folder + "/page.html: open it in a browser\n");
  EXPECT_EQ(test::read_file(folder + "/page.html"), to_report_page({read_report_input(folder)}));
  EXPECT_EQ(test::panpipe("report nowhere -o " + folder + "/x.html").exit_code, 2);
  EXPECT_EQ(test::panpipe("report " + folder).exit_code, 2);
  EXPECT_EQ(test::panpipe("report " + folder + " " + folder + " " + folder + " -o " + folder + "/x.html").err,
            "error: panpipe report: give one result, or two to lay over each other\n");
}

}  // namespace
}  // namespace panpipe::study
