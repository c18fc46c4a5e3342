// `panpipe import topology`: the file that it writes is used like any other; what is missing is said with its remedy.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/cli/program.hpp"

namespace panpipe::test {
namespace {

using testing::HasSubstr;

const std::string kMatrix = "tests/costmodel/cluster/data/topo-rtx3090x8.txt";

// The imported cluster, and the same with `topology:` inside, give the same prediction.
TEST(ImportTopology, TheFileIsACluster) {
  const std::string folder = temporary_folder(), cluster = folder + "/mine.yaml", direct = folder + "/direct.yaml";
  const Outcome written = panpipe("import topology " + kMatrix + " --device rtx-3090 -o " + cluster);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.err, "written to " + cluster +
                             ": 8 devices a node, 4 pairs with NVLink, 2 sockets; look at it with panpipe check " + cluster +
                             " --links, use it with --set cluster=" + cluster + "\n");
  write_file(direct, "panpipe: 1\nkind: cluster\ndevice: rtx-3090\nwiring: {topology: " +
                         std::filesystem::absolute("costmodel/cluster/data/topo-rtx3090x8.txt").string() + "}\n");
  const auto prediction = [](const std::string& file) {
    const Outcome run = panpipe("simulate scenarios/examples/gpt2-large-rtx3090x8.yaml --set cluster=" + file);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return run.out.substr(run.out.find('\n') + 1);  // the first line names the file
  };
  EXPECT_EQ(prediction(cluster), prediction(direct));
  EXPECT_EQ(panpipe("import topology " + kMatrix + " --device rtx-3090").out.substr(0, 74),
            "# Written by `panpipe import topology` from " + kMatrix.substr(0, 30));
}

// Two adapters beside each pair of devices, four more beside each other only.
TEST(ImportTopology, SaysHowManyAdaptersBelongToADevice) {
  const std::string cluster = temporary_folder() + "/dgx.yaml";
  const Outcome written =
      panpipe("import topology tests/costmodel/cluster/data/topo-dgx-a100.txt --device a100-40g-sxm -o " + cluster);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(written.err,
            "written to " + cluster +
                ": 8 devices a node, 28 pairs with NVLink (a switch), 4 sockets, 12 network adapters, of which 8 lie beside a "
                "device (PIX, PXB): if the others are for storage, give --nics 8; look at it with panpipe check " +
                cluster + " --links, use it with --set cluster=" + cluster + "\n");
}

TEST(ImportTopology, SaysWhatIsMissing) {
  const auto fault = [](const std::string& arguments) {
    const Outcome run = panpipe("import topology " + arguments);
    EXPECT_EQ(run.exit_code, 2) << arguments;
    EXPECT_EQ(run.out, "");
    return run.err;
  };
  EXPECT_THAT(fault(kMatrix + " --device rtx-3090 --nodes 2"),
              HasSubstr("2 nodes need a network: give the bandwidth of an adapter, for example --network-bandwidth '25 GB/s'"));
  EXPECT_THAT(fault(kMatrix + " --device rtx-3090 --nics 2"), HasSubstr("go with --network-bandwidth"));
  EXPECT_THAT(fault(kMatrix + " --device rtx-309"),
              HasSubstr("--device: error: no device file 'rtx-309'\n  help: did you mean 'devices/rtx-3090.yaml'?"));
  EXPECT_THAT(fault(kMatrix), HasSubstr("--device"));
  EXPECT_THAT(fault("README.md --device rtx-3090"),
              HasSubstr("README.md: error: no matrix of 'nvidia-smi topo -m' in this text"));
  EXPECT_THAT(fault("nowhere.txt --device rtx-3090"), HasSubstr("nowhere.txt"));
  EXPECT_THAT(fault(kMatrix + " --device rtx-3090 --nodes 2 --network-bandwidth 25"), HasSubstr("--network-bandwidth: "));
}

}  // namespace
}  // namespace panpipe::test
