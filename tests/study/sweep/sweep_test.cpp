// Sweeps: resumed, sharded and merged ones equal the whole byte for byte; refused cells are answers; mistakes of the call are
// reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/files/files_read.hpp"
#include "study/sweep/sweep.hpp"
#include "tests/cli/program.hpp"
#include "tests/fault.hpp"
#include "tests/present/page/page_markup.hpp"
#include "tests/study/sweep/same_folder.hpp"

namespace panpipe::study {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::HasSubstr;

SweepGrid grid_of() {
  SweepGrid grid;
  grid.version = "1";
  grid.scenario = "a.yaml";
  grid.engine = "estimate";
  grid.axes = {{"a", {"1", "2", "3"}}, {"b", {"x", "y", "bad", "stuck", "broken"}}};
  return grid;
}

// Without a scenario: the step time is made from the overrides.
SweepOptions options_of(const std::string& folder) {
  SweepOptions options;
  options.folder = folder;
  options.workers = 2;
  options.load = [](const std::vector<std::string>&) {};
  options.answer = [](const std::vector<std::string>& overrides) -> CellAnswer {
    const double a = overrides[0].back() - '0';
    const std::string b = overrides[1].substr(2);
    if (b == "bad") throw InputError("no such b");
    if (b == "stuck") throw NoAnswer("rank 0 waits for rank 1\nand more");
    if (b == "broken") throw MachineError("not here");
    const bool fits = b == "x" || a > 1;
    return {{{"step_time_s", 1 / a}, {"peak_memory_bytes", 1e9 * a}, {"samples_per_s", 8 * a}}, fits, fits ? "" : "too much", ""};
  };
  return options;
}

TEST(Sweep, CellsStandInTheGridsOrderWithTheirReasons) {
  const SweepRun run = run_sweep(grid_of(), options_of(""));
  ASSERT_EQ(run.cells.size(), 15U);
  EXPECT_TRUE(run.complete);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(run.cells[i].index, i);
  EXPECT_EQ(run.cells[0].status, CellStatus::Fits);
  EXPECT_EQ(run.cells[1].status, CellStatus::TooLarge);
  EXPECT_EQ(run.cells[1].reason, "too much");
  EXPECT_EQ(run.cells[2].status, CellStatus::Refused);
  EXPECT_EQ(run.cells[2].reason, "no such b");
  EXPECT_EQ(run.cells[3].status, CellStatus::NoAnswer);
  EXPECT_EQ(run.cells[3].reason, "rank 0 waits for rank 1");
  EXPECT_EQ(run.cells[4].status, CellStatus::NoMachine);
  EXPECT_EQ(run.cells[5].metric("step_time_s"), 0.5);
  // Of those that fit: (1e9, 1), (2e9, 1/2) twice, (3e9, 1/3) twice; of equal ones the first.
  EXPECT_EQ(pareto_cells(grid_of(), run.cells), (std::vector<std::size_t>{0, 5, 10}));
}

TEST(Sweep, CsvHasARowPerCell) {
  const SweepRun run = run_sweep(grid_of(), options_of(""));
  const std::string csv = to_csv(grid_of(), run.cells);
  EXPECT_THAT(csv, ::testing::StartsWith("a,b,status,reason,plan,step_time_s,peak_memory_bytes,samples_per_s,best\n"
                                         "1,x,fits,,,1.0,1000000000.0,8.0,\n"
                                         "1,y,does not fit,too much,,1.0,1000000000.0,8.0,\n"
                                         "1,bad,refused,no such b,,,,,\n"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 16);
}

TEST(Sweep, DocumentStatesWhatIsBestForItsMemory) {
  const SweepRun run = run_sweep(grid_of(), options_of(""));
  const json document = json::parse(to_json(grid_of(), run.cells, ""));
  EXPECT_EQ(document["schema"], "panpipe-sweep/1");
  EXPECT_EQ(document["size"], 15);
  EXPECT_EQ(document["cells"][5]["settings"], (json{{"a", "2"}, {"b", "x"}}));
  EXPECT_EQ(document["cells"][5]["metrics"]["step_time_s"], 0.5);
  EXPECT_EQ(document["cells"][5]["metrics"]["fits"], true);
  EXPECT_EQ(document["cells"][5]["pareto"], true);
  EXPECT_EQ(document["cells"][6]["pareto"], false);
  EXPECT_TRUE(document["cells"][2]["metrics"].is_null());
  EXPECT_EQ(document["cells"][2]["reason"], "no such b");
}

// The cluster is given and the schedule chosen: there is a best schedule for each cluster, and no best cluster. Front and
// verdicts are those of each cluster, too. On cluster a the schedule x takes 1/a s; y takes twice as long, on 3 a fifth less, and
// does not fit on 1.
TEST(Sweep, WhatIsGivenIsNotChosen) {
  SweepGrid grid = grid_of();
  grid.axes[0].key = "cluster.network.oversubscription";
  grid.axes[1].key = "schedule";
  SweepOptions options = options_of("");
  options.answer = [](const std::vector<std::string>& overrides) -> CellAnswer {
    const double a = overrides[0].back() - '0';
    const std::string b = overrides[1].substr(overrides[1].find('=') + 1);
    if (b != "x" && b != "y") throw InputError("no such schedule");
    const double time = b == "x" ? 1 : a == 3 ? 0.8 : 2;
    return {{{"step_time_s", time / a}, {"peak_memory_bytes", 1e9}, {"samples_per_s", 8 * a / time}}, b == "x" || a > 1, "", ""};
  };
  const SweepRun run = run_sweep(grid, options);
  EXPECT_EQ(conclusion(grid, run.cells),
            "best for cluster.network.oversubscription=1: schedule=x: 1 s a step, 953.7 MiB\n"
            "best for cluster.network.oversubscription=2: schedule=x: 500 ms a step, 953.7 MiB; 50.0 % less than the next\n"
            "best for cluster.network.oversubscription=3: schedule=y: 266.7 ms a step, 953.7 MiB; 20.0 % less than the next");
  EXPECT_EQ(pareto_cells(grid, run.cells), (std::vector<std::size_t>{0, 5, 11}));
  const json document = json::parse(to_json(grid, run.cells, ""));
  EXPECT_EQ(document["axes"][0]["given"], true);
  EXPECT_EQ(document["axes"][1]["given"], false);
  for (std::size_t i = 0; i < 15; ++i) EXPECT_EQ(document["cells"][i]["best"], i == 0 || i == 5 || i == 11) << i;
  EXPECT_THAT(to_csv(grid, run.cells), HasSubstr("\n3,y,fits,,,0.26666666666666666,1000000000.0,30.0,yes\n"));
  const std::string page = to_page(grid, run.cells, "");
  EXPECT_THAT(page, HasSubstr("Best for each cluster.network.oversubscription</h2>"));
  EXPECT_THAT(page, testing::Not(HasSubstr("least step time")));
  EXPECT_THAT(page, testing::Not(HasSubstr("class=\"front\"")));
  // Where nothing is chosen, all of it is compared.
  grid.axes[1] = {"run.price", {"1", "2"}};
  EXPECT_FALSE(grid.separates(0));
  EXPECT_EQ(grid.environment(3), "");
  for (const char* key : {"cluster", "cluster.nodes", "run.price", "workload.model", "usable"}) EXPECT_TRUE(is_given(key)) << key;
  for (const char* key : {"clusters", "parallel.pipeline", "schedule", "batch.micro", "recompute"})
    EXPECT_FALSE(is_given(key)) << key;
}

// A cell that needs many times what any other does would press those together: it is in the table, and reported, but not drawn.
TEST(Sweep, WhatNeedsFarMoreIsNotDrawn) {
  SweepOptions options = options_of("");
  options.answer = [](const std::vector<std::string>& overrides) -> CellAnswer {
    const bool fits = overrides[0] != "a=3";
    return {
        {{"step_time_s", 1}, {"peak_memory_bytes", fits ? 1e9 : 20e9}, {"samples_per_s", 8}}, fits, fits ? "" : "too much", ""};
  };
  const std::string page = to_page(grid_of(), run_sweep(grid_of(), options).cells, "");
  EXPECT_THAT(page, HasSubstr("5 cells that do not fit need far more memory and would lie beyond the right end"));
}

// Of 15 cells: (a, x) fits with 1/a s, (2, y) and (3, y) fit as well, (1, y) is too large, nine have no answer for three reasons.
TEST(Sweep, TheTableIsSortedAndConcluded) {
  const SweepRun run = run_sweep(grid_of(), options_of(""));
  EXPECT_EQ(rankings(grid_of(), run.cells),
            (std::vector<std::vector<std::size_t>>{{10, 11, 5, 6, 0, 1, 2, 3, 4, 7, 8, 9, 12, 13, 14}}));
  EXPECT_EQ(conclusion(grid_of(), run.cells), "best: a=3, b=x: 333.3 ms a step, 2.794 GiB; others are as fast");
  std::vector<SweepCell> sure = run.cells;  // 1/3 s x 0.9 and x 1.2
  for (SweepCell& cell : sure) {
    if (!cell.has_answer()) continue;
    cell.metrics.emplace_back("step_time_p10_s", 0.9 * *cell.metric("step_time_s"));
    cell.metrics.emplace_back("step_time_p90_s", 1.2 * *cell.metric("step_time_s"));
  }
  EXPECT_EQ(conclusion(grid_of(), sure),
            "best: a=3, b=x: 333.3 ms a step (80 % of runs from 300 ms to 400 ms), 2.794 GiB; others are as fast");
  EXPECT_EQ(to_table(grid_of(), run.cells),
            "  a  b       step time  samples/s  MFU  bubble  peak memory\n"
            "  3  x        333.3 ms         24    -       -    2.794 GiB  best\n"
            "  3  y        333.3 ms         24    -       -    2.794 GiB\n"
            "  2  x          500 ms         16    -       -    1.863 GiB  best within 1.863 GiB\n"
            "  2  y          500 ms         16    -       -    1.863 GiB\n"
            "  1  x             1 s          8    -       -    953.7 MiB  best within 953.7 MiB\n"
            "  1  y             1 s          8    -       -    953.7 MiB  does not fit: too much\n"
            "  1  bad             -          -    -       -            -  refused (1)\n"
            "  1  stuck           -          -    -       -            -  no answer (2)\n"
            "  1  broken          -          -    -       -            -  not on this machine (3)\n"
            "  2  bad             -          -    -       -            -  refused (1)\n"
            "  2  stuck           -          -    -       -            -  no answer (2)\n"
            "  2  broken          -          -    -       -            -  not on this machine (3)\n"
            "  3  bad             -          -    -       -            -  refused (1)\n"
            "  3  stuck           -          -    -       -            -  no answer (2)\n"
            "  3  broken          -          -    -       -            -  not on this machine (3)\n"
            "  (1) refused: no such b\n"
            "  (2) no answer: rank 0 waits for rank 1\n"
            "  (3) not on this machine: not here\n"
            "best: a=3, b=x: 333.3 ms a step, 2.794 GiB; others are as fast\n");
  std::vector<SweepCell> slow = {run.cells[5], run.cells[0]};  // 500 ms and 1 s
  EXPECT_THAT(conclusion(grid_of(), slow), ::testing::EndsWith("; 50.0 % less than the next"));
  EXPECT_EQ(conclusion(grid_of(), {run.cells[1]}), "no cell fits");
  EXPECT_EQ(conclusion(grid_of(), {run.cells[2]}), "no cell has an answer");
}

// Values without an order are bars with their differences, numbers are lines; what has no point is in no legend.
TEST(Sweep, ThePageDrawsWordsAsBarsAndNumbersAsLines) {
  const SweepRun run = run_sweep(grid_of(), options_of(""));
  const std::string page = to_page(grid_of(), run.cells, "");
  EXPECT_THAT(page, HasSubstr("<p>Best: a=3, b=x: 333.3 ms a step, 2.794 GiB; others are as fast.</p>"));
  EXPECT_THAT(page, HasSubstr("<p>(1) refused: no such b</p>"));
  EXPECT_EQ(present::count(page, "refused: no such b"), 1U);
  EXPECT_THAT(page, HasSubstr("<figcaption>Step time by a</figcaption>"));
  EXPECT_EQ(present::count(page, "class=\"line l"), 2U) << "x and y";
  EXPECT_THAT(page, HasSubstr("<figcaption>Step time by b</figcaption>"));
  EXPECT_THAT(page, HasSubstr(">a=3</text>"));
  EXPECT_THAT(page, HasSubstr(">333.3 ms</text>"));
  EXPECT_THAT(page, HasSubstr(">1 s, does not fit</text>"));
  EXPECT_THAT(page, HasSubstr(">not on this machine</text>"));
}

// 2,000 bytes: GiB would be 0.0.
TEST(Sweep, SmallMemoryHasAUnitThatShowsIt) {
  SweepGrid grid = grid_of();
  grid.axes = {{"a", {"1", "2"}}};
  SweepOptions options = options_of("");
  options.answer = [](const auto&) -> CellAnswer { return {{{"step_time_s", 1}, {"peak_memory_bytes", 2000}}, true, "", ""}; };
  const std::string page = to_page(grid, run_sweep(grid, options).cells, "");
  EXPECT_THAT(page, HasSubstr(">2.0 KiB<"));
  EXPECT_THAT(page, HasSubstr("peak memory <span class=\"soft\">KiB</span>"));
  EXPECT_THAT(page, testing::Not(HasSubstr("GiB")));
}

TEST(Sweep, DifferentBatchesAreComparedBySample) {
  SweepGrid grid = grid_of();
  grid.axes = {{"batch.microbatches", {"1", "2"}}};
  SweepOptions options = options_of("");
  options.answer = [](const std::vector<std::string>& overrides) -> CellAnswer {
    const double samples = overrides[0].back() - '0';  // 1 sample in 1 s, 2 in 1.5 s: the second step is longer, and better
    const double step = 0.5 + 0.5 * samples;
    return {{{"step_time_s", step}, {"peak_memory_bytes", 1e9}, {"samples_per_s", samples / step}}, true, "", ""};
  };
  const SweepRun run = run_sweep(grid, options);
  EXPECT_TRUE(measure_for(run.cells).per_sample);
  EXPECT_DOUBLE_EQ(*measure_for(run.cells).of(run.cells[1]), 0.75);
  EXPECT_EQ(pareto_cells(grid, run.cells), (std::vector<std::size_t>{1}));
  EXPECT_THAT(to_page(grid, run.cells, ""), HasSubstr("Time per sample against memory"));
  EXPECT_THAT(to_table(grid, run.cells), HasSubstr("step time  a sample  samples/s"));
  EXPECT_EQ(conclusion(grid, run.cells), "best: batch.microbatches=2: 750 ms a sample, 953.7 MiB; 25.0 % less than the next");
  EXPECT_FALSE(measure_for(run_sweep(grid_of(), options_of("")).cells).per_sample);
}

TEST(Sweep, ThreadsAndInterruptionsDoNotChangeTheAnswer) {
  const std::string whole = test::temporary_folder(), parts = test::temporary_folder(), one = test::temporary_folder();
  run_sweep(grid_of(), options_of(whole));
  SweepOptions single = options_of(one);
  single.workers = 1;
  run_sweep(grid_of(), single);
  expect_same_folder(whole, one);

  // Stopped again and again after a few cells; the last time a line is cut off, as by a full disk or a lost machine.
  std::size_t kept_before = 0;
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> stop{false};
    SweepOptions stopped = options_of(parts);
    stopped.stop = &stop;
    const std::size_t until = kept_before + 3;
    stopped.progress = [&](const SweepProgress& progress) { stop = progress.done >= until; };
    const SweepRun run = run_sweep(grid_of(), stopped);
    EXPECT_FALSE(run.complete);
    kept_before = run.kept;
  }
  // Of three cells one may have found no machine: such a cell is tried again.
  EXPECT_GE(kept_before, 2U);
  const std::string lines = test::read_file(parts + "/cells.jsonl");
  test::write_file(parts + "/cells.jsonl", lines.substr(0, lines.size() - 5));
  const SweepRun last = run_sweep(grid_of(), options_of(parts));
  EXPECT_TRUE(last.complete);
  EXPECT_GE(last.kept, 2U);
  expect_same_folder(whole, parts);
}

TEST(Sweep, ChangedInputFilesAreReadAgain) {
  const std::string folder = test::temporary_folder(), input = test::temporary_folder() + "/input.txt";
  test::write_file(input, "1");
  SweepGrid grid = grid_of();
  grid.axes = {{"a", {"1", "2"}}};
  SweepOptions options = options_of(folder);
  options.answer = [&](const auto&) -> CellAnswer {
    report_file_read(input);
    return {{{"step_time_s", std::stod(test::read_file(input))}}, true, "", ""};
  };
  run_sweep(grid, options);
  EXPECT_EQ(run_sweep(grid, options).kept, 2U);
  test::write_file(input, "5");
  const SweepRun again = run_sweep(grid, options);
  EXPECT_EQ(again.kept, 0U);
  EXPECT_EQ(again.cells[0].metric("step_time_s"), 5);
}

TEST(Sweep, ShardsMergedEqualTheWhole) {
  const std::string whole = test::temporary_folder(), merged = test::temporary_folder();
  run_sweep(grid_of(), options_of(whole));
  std::vector<std::string> folders;
  std::size_t cells = 0;
  for (std::size_t shard = 1; shard <= 4; ++shard) {
    folders.push_back(test::temporary_folder());
    SweepOptions options = options_of(folders.back());
    options.shard = shard;
    options.shards = 4;
    cells += run_sweep(grid_of(), options).cells.size();
  }
  EXPECT_EQ(cells, 15U);
  merge_sweeps({folders[2], folders[0], folders[3], folders[1]}, merged);
  expect_same_folder(whole, merged);
  EXPECT_EQ(merge_sweeps({folders[0], folders[1]}, "").cells.size(), 8U);  // cells 0 4 8 12 and 1 5 9 13
}

TEST(Sweep, DifferentSweepsAreNotMerged) {
  const std::string one = test::temporary_folder(), two = test::temporary_folder();
  SweepGrid other = grid_of();
  other.axes[0].values.pop_back();
  run_sweep(grid_of(), options_of(one));
  run_sweep(other, options_of(two));
  EXPECT_EQ(test::diagnostic_of([&] {
              merge_sweeps({one, two}, "");
            }).text(),
            two + ": error: this is another sweep than " + one +
                "\n  help: shards of one sweep have the same scenario, keys, values, engine and version of panpipe");
}

TEST(Sweep, OneFolderTakesOneSweepAtATime) {
  const std::string folder = test::temporary_folder();
  SweepOptions options = options_of(folder);
  std::string message;
  options.progress = [&](const SweepProgress& progress) {
    if (progress.done != 1) return;
    message = test::fault_of<MachineError>([&] { run_sweep(grid_of(), options_of(folder)); });
  };
  run_sweep(grid_of(), options);
  EXPECT_EQ(message, "another sweep is writing into " + folder + "; choose another folder with -o");
}

}  // namespace
}  // namespace panpipe::study
