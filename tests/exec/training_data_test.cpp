// The data of a run, and a whole training: a small GPT learns a text, is killed, and goes on.
#include <ATen/Functions.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "tests/exec/training_fixture.hpp"
#include "tests/fault.hpp"

namespace panpipe::exec {
namespace {

namespace fs = std::filesystem;

std::string tokens_file(const Folder& folder, int count, int vocabulary) {
  std::string bytes;
  for (int i = 0; i < count; ++i) {
    const int token = (i * i + 3 * i) % vocabulary;
    bytes += static_cast<char>(token & 255);
    bytes += static_cast<char>(token >> 8);
  }
  return folder.write("tokens.bin", bytes);
}

// The same samples as tensors: sample i is tokens 8 i .. 8 i + 7 and their successors.
void samples_file(const std::string& path, const std::string& tokens, std::int64_t samples) {
  const std::string bytes = content(tokens);
  const at::Tensor ids = at::empty({samples, 8}, at::kLong), labels = at::empty({samples, 8}, at::kInt);
  for (std::int64_t i = 0; i < samples * 8; ++i) {
    const auto token = [&](std::int64_t at) {
      return static_cast<unsigned char>(bytes[2 * at]) + 256 * static_cast<unsigned char>(bytes[2 * at + 1]);
    };
    ids.data_ptr<std::int64_t>()[i] = token(i);
    labels.data_ptr<std::int32_t>()[i] = token(i + 1);
  }
  write_safetensors(path, {{"input_ids", ids}, {"labels", labels}});
}

TEST(Data, TokensAndTensorsGiveTheSameSamplesInOrder) {
  const Folder folder;
  const std::string tokens = tokens_file(folder, 8 * 11 + 1, 48);  // 11 samples: eight a step, so steps begin at 0, 8, 5
  samples_file(folder.file("d.safetensors"), tokens, 11);
  const std::vector<double> by_tokens = losses_of(folder, small_gpt(2, 1, 4, "data: {tokens: tokens.bin}\n"), 4);
  ASSERT_EQ(by_tokens.size(), 4u);
  EXPECT_EQ(losses_of(folder, small_gpt(2, 1, 4, "data: {tensors: d.safetensors}\n"), 4), by_tokens);
  const std::vector<double> mesh = losses_of(folder, small_gpt(2, 2, 2, "data: {tokens: tokens.bin}\n"), 4);
  for (std::size_t s = 0; s < 4; ++s) EXPECT_NEAR(mesh.at(s), by_tokens[s], 1e-5);
}

struct WrongData {
  std::string name;
  std::string extra;
  std::function<void(const Folder&)> prepare;
  std::string message;
};

TEST(Data, WrongFilesAreRefused) {
  const auto write = [](const Folder& folder, std::vector<std::pair<std::string, at::Tensor>> tensors) {
    write_safetensors(folder.file("d.safetensors"), tensors);
  };
  const at::Tensor ids = at::zeros({4, 8}, at::kLong);
  const std::vector<WrongData> cases = {
      {"cut token", "tokens", [](const Folder& f) { f.write("d", std::string(51, 'x')); },
       "a file of 51 bytes does not hold 16-bit tokens: the last one is cut"},
      {"short tokens", "tokens", [](const Folder& f) { f.write("d", std::string(16, '\1')); },
       "the file holds 8 tokens; a sample and its labels take 9"},
      {"empty tokens", "tokens", [](const Folder& f) { f.write("d", ""); },
       "the file holds 0 tokens; a sample and its labels take 9"},
      {"beyond the vocabulary", "tokens",
       [](const Folder& f) {
         std::string bytes(40, '\0');
         bytes[22] = 48;
         f.write("d", bytes);
       },
       "token 11 has the id 48; the model's vocabulary ends at 47"},
      {"name", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", ids}, {"label", ids}});
       },
       "the file holds no tensor 'labels', which the model reads"},
      {"shape", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::zeros({4, 9}, at::kLong)}, {"labels", ids}});
       },
       "'input_ids' has shape (4, 9); the model expects (samples, 8)"},
      {"type", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::zeros({4, 8})}, {"labels", ids}});
       },
       "'input_ids' holds F32; the model reads I64"},
      {"unequal", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", ids}, {"labels", at::zeros({5, 8}, at::kLong)}});
       },
       "'input_ids' holds 4 samples, 'labels' 5"},
      {"few", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", ids.narrow(0, 0, 1)}, {"labels", ids.narrow(0, 0, 1)}});
       },
       "'input_ids' holds 1 samples, fewer than a microbatch of 2"},
      {"id", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::full({4, 8}, 48, at::kLong)}, {"labels", ids}});
       },
       "'input_ids' holds the id 48; the model's end at 47"},
      {"negative id", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::full({4, 8}, -1, at::kLong)}, {"labels", ids}});
       },
       "'input_ids' holds the id -1; the model's end at 47"},
      // The number of a label that a loss leaves out is no id.
      {"label as an id", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", at::full({4, 8}, -100, at::kLong)}, {"labels", ids}});
       },
       "'input_ids' holds the id -100; the model's end at 47"},
      {"another label", "tensors",
       [&](const Folder& f) {
         write(f, {{"input_ids", ids}, {"labels", at::full({4, 8}, -101, at::kLong)}});
       },
       "'labels' holds the id -101; the model's end at 47"},
  };
  for (const WrongData& wrong : cases) {
    SCOPED_TRACE(wrong.name);
    const Folder folder;
    const std::string name = wrong.extra == "tokens" ? "d" : "d.safetensors";
    wrong.prepare(folder);
    EXPECT_THAT(error_of_step(folder, small_gpt(1, 1, 1, fmt::format("data: {{{}: {}}}\n", wrong.extra, name))),
                testing::HasSubstr("error: " + wrong.message + "\n"));
  }
}

// A label that the loss leaves out may stand in a file, of any model whose loss leaves it out; over a divided vocabulary too.
TEST(Data, LabelsThatLossesLeaveOutAreNoIds) {
  const Folder folder;
  const at::Tensor ids = at::arange(32, at::kLong).reshape({4, 8}), labels = ids.clone();
  labels.narrow(1, 0, 5).fill_(-100);
  write_safetensors(folder.file("d.safetensors"), {{"input_ids", ids}, {"labels", labels}});
  for (const int tensor : {1, 2}) {
    std::string text = small_gpt(tensor, 1, 1, "data: {tensors: d.safetensors}\n");
    if (tensor > 1) text.replace(text.find("pipeline: 2"), 11, "tensor: 2");
    EXPECT_EQ(error_of_step(folder, text), "");
  }
}

TEST(Data, TokensAreForModelsThatReadThem) {
  const Folder folder;
  tokens_file(folder, 100, 48);
  const auto error = [&](const std::string& workload) {
    std::string scenario = small_gpt(1, 1, 1, "data: {tokens: tokens.bin}\n");
    const auto at = scenario.find("{model"), end = scenario.find('}', at);
    scenario.replace(at, end - at + 1, workload);
    return error_of_step(folder, scenario);
  };
  EXPECT_THAT(error("{model: bert, layers: 1, hidden: 16, heads: 2, sequence: 8, vocabulary: 48}"),
              testing::HasSubstr(
                  "error: the model also reads token_type_ids and next_sentence_label, which a file of tokens does not hold\n"));
}

TEST(Options, OfCheckpointsGoTogether) {
  const Folder folder;
  const std::string file = folder.write("s.yaml", small_gpt(1, 1, 1));
  RunRequest request = quiet(file, 1);
  request.checkpoint_every = 2;
  EXPECT_EQ(run_threads(file, request).error(), "--checkpoint-every needs --checkpoint DIR");
  request = quiet(file, 1);
  request.resume = "auto";
  EXPECT_EQ(run_threads(file, request).error(), "--resume auto looks into the folder of checkpoints: give --checkpoint DIR too");
}

// --- safetensors ---

std::string safetensors(const std::string& header, const std::string& data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + data;
}

TEST(Safetensors, ComeBackAsTheyWere) {
  const Folder folder;
  const std::string path = folder.file("a.safetensors");
  const std::vector<std::pair<std::string, at::Tensor>> tensors = {{"x", at::arange(6, at::kFloat).reshape({2, 3})},
                                                                   {"empty", at::zeros({0, 4}, at::kHalf)},
                                                                   {"scalar", at::scalar_tensor(7, at::kLong)},
                                                                   {"b", at::ones({3}, at::kBFloat16)},
                                                                   {"flag", at::ones({3}, at::kBool)},
                                                                   {"t", at::arange(6, at::kDouble).reshape({2, 3}).t()}};
  const WrittenFile written = write_safetensors(path, tensors, {{"who", "a test"}});
  EXPECT_EQ(written.sha256, sha256_of_file(path));
  EXPECT_EQ(written.bytes, static_cast<std::int64_t>(fs::file_size(path)));
  const SafetensorsFile file(path);
  EXPECT_EQ(file.metadata().at("who"), "a test");
  for (const auto& [name, value] : tensors) {
    EXPECT_TRUE(at::equal(file.read(name), value)) << name;
    EXPECT_EQ(file.read(name).scalar_type(), value.scalar_type());
  }
  EXPECT_TRUE(at::equal(file.read_rows("x", 1, 1), tensors[0].second.narrow(0, 1, 1)));
}

TEST(Safetensors, BrokenFilesAreRefused) {
  const std::string f32 = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"abc", "shorter than its first eight bytes"},
      {std::string(8, '\xff') + "{}", "a header of 18446744073709551615 bytes in a file of 10"},
      {safetensors("{", ""),
       "header:1:2: error: this is not JSON: unexpected end of input; expected string literal\n    1 | {\n      |  ^"},
      {safetensors("[]", ""), "the header is not an object"},
      {safetensors(R"({"a":1,"a":2})", ""), "the header names 'a' twice"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[1]}})", "1234"),
       "tensor 'a' does not have exactly dtype, shape and data_offsets"},
      {safetensors(R"({"a":{"dtype":"F8","shape":[1],"data_offsets":[0,1]}})", "1"),
       "tensor 'a' has the element type 'F8', which is not read here"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' has a shape that is not of whole numbers"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[4,4611686018427387904],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' is larger than the file"},
      {safetensors(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", "1234"),
       "tensor 'a' takes 8 bytes by its shape and 4 by its offsets"},
      {safetensors(f32, "123"), "tensor 'a' ends at byte 4, the data at 3"},
      {safetensors(f32, "12345"), "1 bytes after the last tensor"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})",
                   "123"),
       "tensors overlap"},
      {safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})", "12"),
       "there are bytes between tensors that belong to none"},
      {safetensors(R"({"__metadata__":{"a":1}})", ""), "__metadata__ holds something other than text"},
  };
  for (const auto& [bytes, message] : cases) {
    const Folder folder;
    const std::string path = folder.write("x", bytes);
    EXPECT_EQ(test::diagnostic_of([&] { SafetensorsFile file(path); }).message,
              path + ": not a whole safetensors file: " + message);
  }
}

// --- real training ---

const char* const kLicences = "/usr/share/common-licenses";
const char* const kChildFolder = "PANPIPE_TEST_CHILD_FOLDER";

std::string licence_scenario() {
  std::string scenario = small_gpt(2, 2, 2,
                                   "optimizer: {name: adamw, learning_rate: 0.003, betas: [0.9, 0.98]}\n"
                                   "training: {clip_gradients: 1, warmup_steps: 20, decay: linear, decay_steps: 200}\n"
                                   "data: {tokens: licences.bin}\n");
  const auto at = scenario.find("{model"), end = scenario.find('}', at);
  scenario.replace(at, end - at + 1, "{model: gpt, layers: 2, hidden: 64, heads: 4, sequence: 32, vocabulary: 128}");
  scenario.replace(scenario.find("micro: 2"), 8, "micro: 8");
  return scenario;
}

constexpr int kLicenceSteps = 200;

RunRequest licence_request(const std::string& folder, const std::string& name) {
  RunRequest request = with_checkpoints(folder + "/s.yaml", kLicenceSteps, folder + "/" + name, 25);
  request.metrics = folder + "/" + name + ".jsonl";
  return request;
}

// Run by the test below in a process of its own, and killed there.
TEST(Licences, DISABLED_Child) {
  if (const char* folder = std::getenv(kChildFolder))
    run_threads(std::string(folder) + "/s.yaml", licence_request(folder, "killed"));
}

// A small GPT on the bytes of this machine's licence texts: it learns, is killed half-way, resumes and ends bit-equal.
TEST(Licences, LearnsAndSurvivesItsDeath) {
  if (!fs::exists(std::string(kLicences) + "/LGPL-2.1")) GTEST_SKIP() << "this machine has no licence texts";
  const Folder folder;
  const std::string root = fs::path(folder.file("x")).parent_path().string();
  const std::string make = fmt::format("python3 {}/tools/make_tokens.py -o {}/licences.bin {}/GPL-3 {}/LGPL-2.1 2>/dev/null",
                                       PANPIPE_SOURCE, root, kLicences, kLicences);
  ASSERT_EQ(std::system(make.c_str()), 0);
  const std::string file = folder.write("s.yaml", licence_scenario());
  const Outcome whole = run_threads(file, licence_request(root, "whole"));
  ASSERT_EQ(whole.error(), "");
  const std::vector<double> losses = whole.losses();
  EXPECT_NEAR(losses.front(), std::log(128.0), 0.2);
  double last = 0;
  for (std::size_t s = losses.size() - 10; s < losses.size(); ++s) last += losses[s] / 10;
  EXPECT_LT(last, 2.75) << "below the loss of guessing by frequency (3.2 nats)";

  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(kChildFolder, root.c_str(), 1);
    const int null = ::open("/dev/null", O_WRONLY);
    ::dup2(null, STDOUT_FILENO);
    ::execl("/proc/self/exe", "test", "--gtest_also_run_disabled_tests", "--gtest_filter=Licences.DISABLED_Child", nullptr);
    ::_exit(127);
  }
  while (content(folder.file("killed.jsonl")).find("\"step\":105,") == std::string::npos) {
    ASSERT_EQ(::waitpid(child, nullptr, WNOHANG), 0) << "the child ended by itself";
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  RunRequest request = licence_request(root, "killed");
  request.resume = "auto";
  const Outcome resumed = run_threads(file, request);
  ASSERT_EQ(resumed.error(), "");
  ASSERT_LT(resumed.losses().size(), losses.size() - 90) << "it went on from a checkpoint";
  EXPECT_EQ(resumed.losses(),
            std::vector<double>(losses.end() - static_cast<std::ptrdiff_t>(resumed.losses().size()), losses.end()));
  expect_bit_equal(tensors_of(step_folder(folder.file("killed"), kLicenceSteps)),
                   tensors_of(step_folder(folder.file("whole"), kLicenceSteps)));
}

}  // namespace
}  // namespace panpipe::exec
