// Token files of both widths and of Megatron, the order of samples over passes, and runs that go on in the middle of them.
#include <ATen/Functions.h>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "exec/engine/training/sample_order.hpp"
#include "exec/engine/training/token_file.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/texts.hpp"

namespace panpipe::exec {
namespace {

using Ids = std::vector<std::int64_t>;

template <class Number>
std::string bytes_of(const Ids& ids) {
  std::string bytes;
  for (const std::int64_t id : ids) {
    const auto value = static_cast<Number>(id);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return bytes;
}

Ids some_ids(int count, int vocabulary) {
  Ids ids;
  for (int i = 0; i < count; ++i) ids.push_back((i * i + 3 * i) % vocabulary);
  return ids;
}

// --- the order of samples ---

TEST(SampleOrder, TakesEverySampleOnceInEachPass) {
  for (const std::int64_t samples : {1, 2, 3, 4, 5, 17, 64, 1000}) {
    const SampleOrder order(samples, 7);
    std::set<Ids> passes;
    for (std::int64_t pass = 0; pass < 3; ++pass) {
      Ids taken;
      for (std::int64_t i = 0; i < samples; ++i) taken.push_back(order.at(pass * samples + i));
      passes.insert(taken);
      Ids sorted = taken, all(static_cast<std::size_t>(samples));
      std::sort(sorted.begin(), sorted.end());
      std::iota(all.begin(), all.end(), 0);
      EXPECT_EQ(sorted, all) << samples << " samples, pass " << pass;
    }
    if (samples >= 17) {
      EXPECT_EQ(passes.size(), 3u) << samples << " samples";
    }
  }
}

TEST(SampleOrder, WithoutSeedIsTheFiles) {
  const SampleOrder order(5);
  Ids taken;
  for (int i = 0; i < 12; ++i) taken.push_back(order.at(i));
  EXPECT_EQ(taken, (Ids{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1}));
}

// A fair shuffle of n puts sample s at place p with probability 1 / n: the mean of |s - p| is (n^2 - 1) / 3n, about n / 3, with a
// standard deviation of about n x sqrt(2 / 45n); neighbours stay neighbours (in either order) about 2 times in n places.
TEST(SampleOrder, ShufflesWithoutATrend) {
  constexpr std::int64_t kSamples = 10'000;
  for (const std::uint64_t seed : {0, 1, 2}) {
    const SampleOrder order(kSamples, seed);
    double moved = 0;
    int neighbours = 0;
    for (std::int64_t i = 0; i < kSamples; ++i) {
      moved += static_cast<double>(std::abs(order.at(i) - i));
      neighbours += i > 0 && std::abs(order.at(i) - order.at(i - 1)) == 1;
    }
    EXPECT_NEAR(moved / kSamples, kSamples / 3.0, 6 * 21) << "six deviations of 10^4 x sqrt(2 / 450000) = 21";
    EXPECT_LE(neighbours, 14) << "a Poisson count of mean 2: beyond 14 once in 10^8";
  }
  EXPECT_NE(SampleOrder(kSamples, 0).at(0), SampleOrder(kSamples, 1).at(0));
}

TEST(SampleOrder, OfACorpusTakesNoMemory) {
  constexpr std::int64_t kSamples = std::int64_t{1} << 40;
  const SampleOrder order(kSamples, 3);
  std::set<std::int64_t> taken;
  for (std::int64_t i = 0; i < 1000; ++i) taken.insert(order.at(kSamples - 500 + i));
  EXPECT_GE(*taken.begin(), 0);
  EXPECT_LT(*taken.rbegin(), kSamples);
  EXPECT_GE(taken.size(), 999u) << "within a pass none twice; two of different passes meet with a probability of 2.5e-7";
}

// --- token files ---

Ids sample_of(const TokenFile& file, std::int64_t sample, std::int64_t sequence, std::int64_t shift = 0) {
  Ids ids(static_cast<std::size_t>(sequence));
  file.read(sample, shift, ids.data());
  return ids;
}

TEST(TokenFile, BothWidthsHoldTheSameSamples) {
  const Folder folder;
  const Ids ids = some_ids(25, 60'000);
  const TokenFile narrow(folder.write("a.bin", bytes_of<std::uint16_t>(ids)), 0, 8, 60'000);
  const TokenFile wide(folder.write("b.bin", bytes_of<std::uint32_t>(ids)), 32, 8, 60'000);
  ASSERT_EQ(narrow.samples(), 3);
  ASSERT_EQ(wide.samples(), 3);
  EXPECT_EQ(sample_of(wide, 2, 8, 1), Ids(ids.begin() + 17, ids.end()));
  for (int sample = 0; sample < 3; ++sample) EXPECT_EQ(sample_of(wide, sample, 8), sample_of(narrow, sample, 8));
}

// Ids of today's vocabularies: Llama 3 has 128256, Qwen 151936.
TEST(TokenFile, WideIdsAreRead) {
  const Folder folder;
  const Ids ids = {0, 65'535, 65'536, 128'255, 151'935, 4'294'967'295};
  const TokenFile file(folder.write("a", bytes_of<std::uint32_t>(ids)), 32, 5, 0);
  EXPECT_EQ(sample_of(file, 0, 5, 1), Ids(ids.begin() + 1, ids.end()));
}

struct IndexParts {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  int type = 8;  // uint16
  std::vector<std::int32_t> lengths = {9, 0, 16};
  std::vector<std::int64_t> begins = {0, 18, 18}, documents = {0, 2, 3};
  std::string more{};
};

std::string index_of(const IndexParts& parts) {
  std::string bytes = parts.magic;
  const auto put = [&](const auto& value) { bytes.append(reinterpret_cast<const char*>(&value), sizeof value); };
  put(parts.version);
  put(static_cast<std::uint8_t>(parts.type));
  put(static_cast<std::uint64_t>(parts.lengths.size()));
  put(static_cast<std::uint64_t>(parts.documents.size()));
  for (const auto value : parts.lengths) put(value);
  for (const auto value : parts.begins) put(value);
  for (const auto value : parts.documents) put(value);
  return bytes + parts.more;
}

TEST(TokenFile, ReadsWhatMegatronWrites) {
  const Folder folder;
  const Ids ids = some_ids(25, 48);
  folder.write("a.idx", index_of({}));
  folder.write("b.idx", index_of({.type = 4, .begins = {0, 36, 36}, .more = std::string("\1\0\1", 3)}));  // int32, multimodal
  const TokenFile narrow(folder.write("a.bin", bytes_of<std::uint16_t>(ids)), 0, 8, 48);
  const TokenFile wide(folder.write("b.bin", bytes_of<std::int32_t>(ids)), 0, 8, 48);
  for (int sample = 0; sample < 3; ++sample) {
    EXPECT_EQ(sample_of(narrow, sample, 8), Ids(ids.begin() + 8 * sample, ids.begin() + 8 * sample + 8));
    EXPECT_EQ(sample_of(wide, sample, 8), sample_of(narrow, sample, 8));
  }
}

struct WrongIndex {
  std::string index, message;
  int width = 0;
};

TEST(TokenFile, WrongIndexesAreRefused) {
  const auto cut = [](std::size_t bytes) { return index_of({}).substr(0, bytes); };
  const std::string head = "the index FOLDER/a.idx";
  const std::vector<WrongIndex> cases = {
      {"", head + ": 0 bytes are shorter than its header of 34"},
      {cut(33), head + ": 33 bytes are shorter than its header of 34"},
      {index_of({.magic = std::string("MMIDIDY\0\0", 9)}),
       head + ": it does not begin as an index of Megatron; rename it if it is something else"},
      {index_of({.version = 2}), head + ": it has version 2; version 1 is read"},
      {index_of({.type = 5}), head + ": it gives the tokens the type 5; tokens are read as uint16 (8) and int32 (4)"},
      {cut(93), head + ": its 3 sequences and 3 entries of documents do not make its 93 bytes"},
      {index_of({.more = "\1"}), head + ": its 3 sequences and 3 entries of documents do not make its 95 bytes"},
      {index_of({.lengths = {9, -1, 17}}), head + ": sequence 1 has -1 tokens"},
      {index_of({.begins = {0, 18, 20}}), head + ": sequence 2 begins at byte 20, the one before it ends at 18"},
      {index_of({.documents = {0, 3, 2}}),
       head + ": entry 2 of its documents is 2; they go from 0 to the 3 sequences and never back"},
      {index_of({.documents = {1, 2, 3}}),
       head + ": entry 0 of its documents is 1; they go from 0 to the 3 sequences and never back"},
      {index_of({.documents = {0, 1, 2}}),
       head + ": entry 2 of its documents is 2; they go from 0 to the 3 sequences and never back"},
      {index_of({.lengths = {9, 0, 15}}), head + " counts 24 tokens of 16 bits, which are 48 bytes; FOLDER/a.bin has 50"},
      {index_of({}), head + " says that tokens have 16 bits, not 32", 32},
  };
  for (const WrongIndex& wrong : cases) {
    SCOPED_TRACE(wrong.message);
    const Folder folder;
    folder.write("a.bin", bytes_of<std::uint16_t>(some_ids(25, 48)));
    folder.write("a.idx", wrong.index);
    const std::string width = wrong.width > 0 ? fmt::format(", width: {}", wrong.width) : "";
    const std::string file = folder.write("s.yaml", small_gpt(1, 1, 1, fmt::format("data: {{tokens: a.bin{}}}\n", width)));
    const std::string message = test::replaced(wrong.message, "FOLDER", folder.path().string());
    EXPECT_THAT(run_threads(file, quiet(file, 1)).error(),
                testing::HasSubstr(fmt::format("{}:6:16: error: {}\n  at data.tokens\n", file, message)));
  }
}

// Found when the sample is read: the step before trains. Eight tokens a sample, two samples a step: token 21 is the last but two
// label of the second step.
TEST(TokenFile, IdsBeyondTheVocabularyEndTheRunAtTheirPlace) {
  const Folder folder;
  Ids ids = some_ids(33, 48);
  ids[21] = 70'000;
  folder.write("a", bytes_of<std::uint32_t>(ids));
  const std::string file = folder.write("s.yaml", small_gpt(2, 1, 1, "data: {tokens: a, width: 32}\n"));
  RunRequest request = quiet(file, 2);
  request.metrics = folder.file("m.jsonl");
  EXPECT_THAT(run_threads(file, request).error(),
              testing::HasSubstr(file + ":6:16: error: token 21 has the id 70000; the model's vocabulary ends at 47\n"));
  request.steps = 1;
  EXPECT_EQ(run_threads(file, request).error(), "");
}

// --- runs ---

// Eleven samples: a step of eight takes more than half of them.
std::string tokens_scenario(int pipeline, int data, int microbatches, const std::string& more, int micro = 2) {
  std::string text = small_gpt(pipeline, data, microbatches, fmt::format("data: {{tokens: a{}}}\n", more));
  return text.replace(text.find("micro: 2"), 8, fmt::format("micro: {}", micro));
}

TEST(TrainingOrder, WideTokensTrainAsNarrowOnes) {
  const Folder folder;
  const Ids ids = some_ids(8 * 11 + 1, 48);
  folder.write("a", bytes_of<std::uint16_t>(ids));
  const std::vector<double> narrow = losses_of(folder, tokens_scenario(2, 1, 4, ""), 4);
  ASSERT_EQ(narrow.size(), 4u);
  folder.write("a", bytes_of<std::uint32_t>(ids));
  EXPECT_EQ(losses_of(folder, tokens_scenario(2, 1, 4, ", width: 32"), 4), narrow);
}

// A rate of 0 keeps the model: over a pass in any order the losses' mean is the same. 12 samples are 3 steps of 4; and of a
// pass's steps each is another than in the file's order.
TEST(TrainingOrder, AShuffledPassHoldsTheSamplesOfTheFile) {
  const Folder folder;
  folder.write("a", bytes_of<std::uint16_t>(some_ids(8 * 12 + 1, 48)));
  const std::string still = "optimizer: {name: sgd, learning_rate: 0}\n";
  const auto losses = [&](const std::string& more, int pipeline, int data) {
    return losses_of(folder, tokens_scenario(pipeline, data, 2 / data, more) + still, 6);
  };
  const std::vector<double> file = losses("", 1, 1), shuffled = losses(", shuffle: true", 1, 1);
  ASSERT_EQ(file.size(), 6u);
  EXPECT_NEAR(file[0], file[3], 1e-6) << "the second pass begins with step 4";
  const auto mean = [](const std::vector<double>& of, std::size_t from) { return (of[from] + of[from + 1] + of[from + 2]) / 3; };
  EXPECT_NEAR(mean(shuffled, 0), mean(file, 0), 1e-6);
  EXPECT_NEAR(mean(shuffled, 3), mean(file, 0), 1e-6);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_GT(std::abs(shuffled[s] - file[s]), 1e-5) << s;
  EXPECT_GT(std::abs(shuffled[0] - shuffled[3]), 1e-5) << "each pass has an order of its own";
  const std::vector<double> mesh = losses(", shuffle: true", 2, 2);
  for (std::size_t s = 0; s < 6; ++s) EXPECT_NEAR(mesh[s], shuffled[s], 1e-5) << "the same on four ranks";
}

// Ended after two steps of eight samples and gone on: on the same ranks bit for bit, on others at the same samples.
TEST(TrainingOrder, AResumedRunTakesTheNextSample) {
  const Folder folder;
  folder.write("a", bytes_of<std::uint16_t>(some_ids(8 * 37 + 1, 48)));
  const auto run = [&](const std::string& text, int steps, const std::string& checkpoints, bool resume) {
    const std::string file = folder.write("s.yaml", text + "optimizer: {name: sgd, learning_rate: 0.1}\n");
    RunRequest request = with_checkpoints(file, steps, folder.file(checkpoints));
    if (resume) request.resume = "auto";
    request.metrics = folder.file(checkpoints + ".jsonl");
    const Outcome outcome = run_threads(file, request);
    EXPECT_EQ(outcome.error(), "");
    return outcome.losses();
  };
  const std::string shuffled = ", shuffle: true";
  const std::vector<double> whole = run(tokens_scenario(2, 1, 4, shuffled), 5, "whole", false);
  ASSERT_EQ(whole.size(), 5u);
  run(tokens_scenario(2, 1, 4, shuffled), 2, "same", false);
  EXPECT_EQ(run(tokens_scenario(2, 1, 4, shuffled), 5, "same", true), std::vector<double>(whole.begin() + 2, whole.end()));
  run(tokens_scenario(2, 1, 4, shuffled), 2, "mesh", false);
  const std::vector<double> mesh = run(tokens_scenario(1, 2, 2, shuffled), 5, "mesh", true);
  ASSERT_EQ(mesh.size(), 3u);
  for (std::size_t s = 0; s < 3; ++s) EXPECT_NEAR(mesh[s], whole[s + 2], 1e-5);
  const auto epochs = metrics_lines(folder.file("whole.jsonl"));
  ASSERT_EQ(epochs.size(), 5u);
  for (int step = 1; step <= 5; ++step) EXPECT_DOUBLE_EQ(epochs[step - 1]["epoch"].get<double>(), 8.0 * step / 37);
}

// With the model at rest the samples show in the losses: three steps of eight after two, or one of 24 in microbatches of three.
TEST(TrainingOrder, AnotherBatchSizeGoesOnAtTheSample) {
  const Folder folder;
  folder.write("a", bytes_of<std::uint16_t>(some_ids(8 * 37 + 1, 48)));
  const std::string still = "optimizer: {name: sgd, learning_rate: 0}\n";
  const auto file = [&](const std::string& name, const std::string& text) { return folder.write(name, text + still); };
  const std::string eight = file("a.yaml", tokens_scenario(2, 1, 4, ", shuffle: true"));
  const std::string other = file("b.yaml", tokens_scenario(2, 1, 8, ", shuffle: true", 3));
  ASSERT_EQ(run_threads(eight, with_checkpoints(eight, 2, folder.file("ck"))).error(), "");
  RunRequest request = with_checkpoints(other, 3, folder.file("ck"));
  request.resume = "auto";
  const Outcome resumed = run_threads(other, request), whole = run_threads(eight, quiet(eight, 5));
  ASSERT_EQ(resumed.error() + whole.error(), "");
  ASSERT_EQ(resumed.losses().size(), 1u);
  EXPECT_NEAR(resumed.losses()[0], (whole.losses()[2] + whole.losses()[3] + whole.losses()[4]) / 3, 1e-6);
}

TEST(TrainingOrder, TensorsAreShuffledToo) {
  const Folder folder;
  const at::Tensor ids = at::arange(12 * 8, at::kLong).remainder(47).reshape({12, 8});
  write_safetensors(folder.file("d"), {{"input_ids", ids}, {"labels", ids.add(1)}});
  const std::string still = "optimizer: {name: sgd, learning_rate: 0}\n";
  const auto losses = [&](const std::string& more) {
    return losses_of(folder, small_gpt(1, 1, 2, fmt::format("data: {{tensors: d{}}}\n{}", more, still)), 3);
  };
  const std::vector<double> file = losses(""), shuffled = losses(", shuffle: true");
  ASSERT_EQ(shuffled.size(), 3u);
  EXPECT_NEAR(shuffled[0] + shuffled[1] + shuffled[2], file[0] + file[1] + file[2], 3e-6);
  EXPECT_GT(std::abs(shuffled[0] - file[0]), 1e-5);
}

TEST(TrainingOrder, HeldOutSamplesAreNotTrainedOn) {
  const Folder folder;
  folder.write("a", bytes_of<std::uint16_t>(some_ids(8 * 12 + 1, 48)));
  folder.write("all", bytes_of<std::uint16_t>(some_ids(8 * 8 + 1, 48)));
  const std::vector<double> part = losses_of(folder, tokens_scenario(1, 1, 2, ", held_out: 35 %"), 5);  // 4.2 of 12 are 4
  ASSERT_EQ(part.size(), 5u);
  EXPECT_EQ(part, losses_of(folder, small_gpt(1, 1, 2, "data: {tokens: all}\n"), 5));
  const std::string none = folder.write("n.yaml", tokens_scenario(1, 1, 2, ", held_out: 99 %"));
  EXPECT_THAT(run_threads(none, quiet(none, 1)).error(),
              testing::HasSubstr(none + ":6:29: error: of 12 samples, 12 held out leave none to train on\n  at data.held_out\n"));
}

}  // namespace
}  // namespace panpipe::exec
