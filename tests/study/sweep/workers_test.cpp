// Worker processes: every job once, crashes are reported and do not spread, a stop stops.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <map>
#include <numeric>

#include "study/sweep/workers.hpp"

namespace panpipe::study {
namespace {

std::vector<std::size_t> jobs_of(std::size_t count) {
  std::vector<std::size_t> jobs(count);
  std::iota(jobs.begin(), jobs.end(), std::size_t{0});
  return jobs;
}

TEST(SweepWorkers, EachJobIsDoneOnce) {
  for (const int count : {1, 2, 7}) {
    std::map<std::size_t, std::string> answers;
    Workers workers;
    workers.count = count;
    workers.work = [](std::size_t job) { return std::string(job * 1000, 'a' + static_cast<char>(job % 26)); };  // up to 49 kB
    workers.done = [&](std::size_t job, const std::string& answer) { EXPECT_TRUE(answers.emplace(job, answer).second); };
    workers.died = [](std::size_t job, const std::string& how) { FAIL() << job << how; };
    EXPECT_TRUE(run_jobs(jobs_of(50), workers));
    ASSERT_EQ(answers.size(), 50U);
    for (const auto& [job, answer] : answers) EXPECT_EQ(answer, workers.work(job));
  }
}

TEST(SweepWorkers, NoJobsNeedNoWorkers) { EXPECT_TRUE(run_jobs({}, Workers{})); }

TEST(SweepWorkers, ACrashIsOneJobsAnswer) {
  std::map<std::size_t, std::string> died;
  std::size_t done = 0;
  Workers workers;
  workers.count = 2;
  workers.work = [](std::size_t job) {
    if (job == 3) std::raise(SIGKILL);
    if (job == 5) _exit(9);
    return std::string("ok");
  };
  workers.done = [&](std::size_t, const std::string&) { ++done; };
  workers.died = [&](std::size_t job, const std::string& how) { died[job] = how; };
  EXPECT_TRUE(run_jobs(jobs_of(12), workers));
  EXPECT_EQ(done, 10U);
  EXPECT_EQ(died, (std::map<std::size_t, std::string>{{3, "signal 9"}, {5, "exit code 9"}}));
}

TEST(SweepWorkers, AStopEndsWhatIsUnderWay) {
  std::atomic<bool> stop{false};
  std::size_t done = 0;
  Workers workers;
  workers.count = 2;
  workers.stop = &stop;
  workers.work = [](std::size_t job) {
    if (job >= 4) pause();  // would never end
    return std::string("ok");
  };
  workers.done = [&](std::size_t, const std::string&) { stop = ++done == 4; };
  workers.died = [](std::size_t job, const std::string&) { FAIL() << job; };
  EXPECT_FALSE(run_jobs(jobs_of(100), workers));
  EXPECT_EQ(done, 4U);
}

}  // namespace
}  // namespace panpipe::study
