#include "base/input/yaml_document.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/input/source_text.hpp"
#include "tests/fault.hpp"
#include "tests/temporary_folder.hpp"

namespace panpipe {
namespace {

using testing::HasSubstr;

NodePtr parse(const std::string& text) { return parse_document(text, "a.yaml", "folder"); }

std::string message_of(const std::string& text) {
  return test::fault_of([&] { parse(text); });
}

TEST(Document, RemembersPlacesPathsAndQuotes) {
  const NodePtr root = parse("a: 1\nb:\n  c: [x, \"2\", {d: e}]\n  f:\n");
  ASSERT_EQ(root->kind, NodeKind::Map);
  const Node* a = root->find("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->text, "1");
  EXPECT_EQ(a->line, 1);
  EXPECT_EQ(a->column, 4);
  EXPECT_FALSE(a->quoted);
  const Node* list = root->find("b")->find("c");
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[1]->text, "2");
  EXPECT_TRUE(list->items[1]->quoted);
  EXPECT_EQ(list->items[1]->path, "b.c[1]");
  EXPECT_EQ(list->items[2]->find("d")->path, "b.c[2].d");
  EXPECT_EQ(list->items[2]->find("d")->column, 19);
  EXPECT_EQ(root->find("b")->find("f")->kind, NodeKind::Null);
  EXPECT_EQ(root->find("b")->find("f")->line, 4);
  EXPECT_EQ(root->entries[1].key, "b");
  EXPECT_EQ(root->entries[1].line, 2);
  EXPECT_EQ(root->find("zzz"), nullptr);
  EXPECT_EQ(a->source->name, "a.yaml");
  EXPECT_EQ(a->source->directory, "folder");
}

// Numbers and booleans stay text: their meaning is the reader's.
TEST(Document, ScalarsStayText) {
  const NodePtr root = parse("a: 010\nb: yes\nc: 1_000\nd: 0x1F\ne: |\n  two\n  lines\nf: it's\n");
  EXPECT_EQ(root->find("a")->text, "010");
  EXPECT_EQ(root->find("b")->text, "yes");
  EXPECT_EQ(root->find("c")->text, "1_000");
  EXPECT_EQ(root->find("d")->text, "0x1F");
  EXPECT_EQ(root->find("e")->text, "two\nlines\n");
  EXPECT_EQ(root->find("f")->text, "it's");
}

// Every value of a line of n bytes, in order, is placed by one pass over the line: n bytes, not n for each value. Backwards too.
TEST(Document, PlacesOfALineTakeOnePass) {
  SourceText source;
  std::string text;
  for (int i = 0; i < 20000; ++i) text += "\xC3\xB6,";  // "ö,": two characters in three bytes
  checked_text(text, source);
  ColumnCursor columns(source);
  for (int i = 0; i < 20000; ++i) ASSERT_EQ(columns.column(1, 3 * i), 2 * i + 1);
  EXPECT_EQ(columns.bytes_passed(), 3 * 19999);
  for (int i = 20000; i-- > 0;) ASSERT_EQ(columns.column(1, 3 * i), 2 * i + 1);
  EXPECT_EQ(columns.bytes_passed(), 2 * 3 * 19999);
  EXPECT_EQ(columns.column(1, 60005), 40001 + 5) << "behind the line's 40000 characters";
  EXPECT_EQ(columns.column(2, 7), 8) << "there is no such line";
}

TEST(Document, MoreThanAMillionValuesAreRefused) {
  std::string text = "a: [1";
  for (int i = 0; i < (1 << 20) - 4; ++i) text += ",1";  // with the map, the key and the list 2^20
  EXPECT_EQ(parse(text + "]\n")->find("a")->items.size(), (1U << 20) - 3);
  EXPECT_THAT(message_of(text + ",1]\n"), HasSubstr("error: the file holds more than 1048576 keys and values"));
}

TEST(Document, ColumnsCountCharacters) {
  // "größe" is five characters in seven bytes: the value is in column 8.
  const NodePtr root = parse("größe: x\n");
  EXPECT_EQ(root->find("größe")->column, 8);
}

TEST(Document, LineEndsAndByteOrderMark) {
  const NodePtr root = parse(
      "\xEF\xBB\xBF"
      "a: 1\r\nb: 2\rc: 3\n");
  EXPECT_EQ(root->find("a")->column, 4);
  EXPECT_EQ(root->find("b")->line, 2);
  EXPECT_EQ(root->find("c")->line, 3);
  EXPECT_EQ(root->find("c")->text, "3");
}

TEST(Document, SixtyFourLevelsAreAllowed) {
  const auto nested = [](int depth) { return "a: " + std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_EQ(message_of(nested(63)), "");  // the map itself is one level
  EXPECT_NE(message_of(nested(64)), "");
  // However deep, and whether closed or not: refused quickly, not overflowed.
  const std::string message = message_of(std::string(100000, '['));
  EXPECT_THAT(message, HasSubstr("error: maps and lists are nested more than 64 deep\n")) << message.substr(0, 200);
}

TEST(Document, FaultsAreGathered) {
  EXPECT_EQ(message_of("a: 1\na: 2\nb: &x 1\nc: *x\n"),
            "a.yaml:2:1: error: key 'a' is given twice, first on line 1\n"
            "  at a\n"
            "    2 | a: 2\n"
            "      | ^\n"
            "a.yaml:4:4: error: aliases ('*name') are not supported\n"
            "  at c\n"
            "    4 | c: *x\n"
            "      |    ^\n"
            "  help: write the value out");
}

TEST(Document, LongLinesAreCutAroundTheCaret) {
  const std::string line = "a: [" + std::string(300, ' ') + "*x]";
  const std::string message = message_of("x: &x 1\n" + line);
  EXPECT_THAT(message, HasSubstr("\n    2 | ..."));
  const std::size_t text = message.find("    2 | "), caret = message.find("      | ");
  // The caret stands under the star.
  const std::size_t offset = message.find('^') - caret;
  EXPECT_EQ(message[text + offset], '*') << message;
}

TEST(Document, FilesThatCannotBeRead) {
  const auto message = [](const std::string& path) { return test::fault_of([&] { load_document(path); }); };
  EXPECT_EQ(message("no/such/file.yaml"), "no/such/file.yaml: error: there is no such file");
  EXPECT_EQ(message("/"), "/: error: this is a folder, not a file");
  EXPECT_EQ(message(""), "'': error: a file name is empty");
}

TEST(Document, AFileLargerThan64MiBIsRefused) {
  const std::string path = test::scratch().file("large.yaml");
  {
    std::ofstream file(path, std::ios::binary);
    file.seekp((64LL << 20));
    file.put('x');
  }
  EXPECT_EQ(test::fault_of([&] { load_document(path); }), path + ": error: the file is larger than 64 MiB");
}

TEST(Override, ReplacesCreatesAndIndexes) {
  const NodePtr root = parse("a: {b: 1, c: [1, 2]}\n");
  apply_override(*root, "a.b=24 GiB");
  apply_override(*root, "a.c[1]=7");
  apply_override(*root, "new.inner.key={x: 1, y: [a, b]}");
  apply_override(*root, "a.url=k=v");
  EXPECT_EQ(root->find("a")->find("b")->text, "24 GiB");
  EXPECT_TRUE(root->find("a")->find("b")->overridden);
  EXPECT_EQ(root->find("a")->find("b")->path, "a.b");
  EXPECT_EQ(root->find("a")->find("c")->items[1]->text, "7");
  const Node* made = root->find("new")->find("inner")->find("key");
  EXPECT_EQ(made->find("y")->items[1]->text, "b");
  EXPECT_EQ(made->find("y")->items[1]->path, "new.inner.key.y[1]");
  EXPECT_TRUE(made->find("y")->items[1]->overridden);
  EXPECT_EQ(root->find("a")->find("url")->text, "k=v");
}

TEST(Override, LaterOnesWin) {
  const NodePtr root = parse("a: 1\n");
  apply_override(*root, "a=2");
  apply_override(*root, "a=3");
  EXPECT_EQ(root->find("a")->text, "3");
  EXPECT_EQ(root->entries.size(), 1u);
}

TEST(Override, DiagnosticsStandInTheAssignment) {
  const NodePtr root = parse("a: {b: 1}\n");
  apply_override(*root, "a.b=zwölf");
  EXPECT_EQ(diagnostic_at(*root->find("a")->find("b"), "not a number").text(),
            "--set a.b=zwölf: error: not a number\n"
            "  at a.b\n"
            "      | a.b=zwölf\n"
            "      |     ^");
  EXPECT_EQ(diagnostic_at_key(*root->find("a"), "b", "unknown").text(),
            "--set a.b=zwölf: error: unknown\n"
            "  at a.b\n"
            "      | a.b=zwölf\n"
            "      |   ^");
  EXPECT_EQ(diagnostic_at(*root->find("a")->find("b"), "x").file, "--set");
}

}  // namespace
}  // namespace panpipe
