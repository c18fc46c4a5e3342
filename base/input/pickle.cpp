#include "base/input/pickle.hpp"

#include <fmt/format.h>

#include <unordered_map>
#include <utility>

#include "base/bits.hpp"
#include "base/error.hpp"

namespace panpipe {
namespace {

// Opcodes that make objects, by their names in Lib/pickletools.py of Python.
constexpr std::pair<unsigned, const char*> kObjects[] = {
    {'c', "GLOBAL"},        {'R', "REDUCE"},       {'b', "BUILD"},           {'i', "INST"},
    {'o', "OBJ"},           {'P', "PERSID"},       {'Q', "BINPERSID"},       {0x81, "NEWOBJ"},
    {0x82, "EXT1"},         {0x83, "EXT2"},        {0x84, "EXT4"},           {0x92, "NEWOBJ_EX"},
    {0x93, "STACK_GLOBAL"}, {0x8f, "EMPTY_SET"},   {0x90, "ADDITEMS"},       {0x91, "FROZENSET"},
    {0x96, "BYTEARRAY8"},   {0x97, "NEXT_BUFFER"}, {0x98, "READONLY_BUFFER"}};

constexpr std::string_view kTextProtocol = "ILFSVpg";  // of protocol 0

}  // namespace

// One pass over the bytes.
class PickleParser {
 public:
  explicit PickleParser(Pickle& pickle) : pickle_(pickle), bytes_(pickle.bytes_) {}

  void run() {
    if (bytes_.size() < 2 || static_cast<unsigned char>(bytes_[0]) != 0x80)
      refuse("this is no pickle",
             "write it with torch.cuda.memory._dump_snapshot(FILE), or with pickle.dump and protocol 2 or more");
    while (!ended_) step();
  }

 private:
  [[noreturn]] void refuse(const std::string& what, const std::string& help = "") const {
    throw InputError(fmt::format("{}: byte {}: {}", pickle_.name_, at_, what), help, code::kSyntax);
  }

  std::uint64_t number(int count) {
    if (bytes_.size() - next_ < static_cast<std::size_t>(count)) refuse("the pickle is cut off here");
    std::uint64_t value = 0;
    for (int i = 0; i < count; ++i) value |= static_cast<std::uint64_t>(static_cast<unsigned char>(bytes_[next_++])) << (8 * i);
    return value;
  }

  void push(PickleValue value) {
    if (stack_.size() >= Pickle::kMostContainers) refuse("more values than a snapshot has");
    stack_.push_back(value);
  }
  void push_integer(std::int64_t value, PickleKind kind = PickleKind::Integer) {
    PickleValue pushed;
    pushed.kind = kind;
    pushed.integer = value;
    push(pushed);
  }
  // A text stays where it is: its place is that of its length, in front of it.
  void push_text(int length_bytes) {
    const std::size_t place = next_ << 4 | static_cast<std::size_t>(length_bytes);
    const std::uint64_t length = number(length_bytes);
    if (length > bytes_.size() - next_) refuse("the pickle is cut off in a text");
    next_ += static_cast<std::size_t>(length);
    push_integer(static_cast<std::int64_t>(place), PickleKind::Text);
  }
  void push_long(std::uint64_t count) {
    if (count > sizeof(std::int64_t)) refuse("a whole number of more than 64 bits");
    const int bits = 8 * static_cast<int>(count);
    std::uint64_t value = number(static_cast<int>(count));
    if (bits > 0 && bits < 64 && (value >> (bits - 1)) != 0) value |= ~std::uint64_t{0} << bits;
    push_integer(static_cast<std::int64_t>(value));
  }
  void push_real() {
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = value << 8 | number(1);
    PickleValue pushed;
    pushed.kind = PickleKind::Real;
    pushed.real = double_of(value);
    push(pushed);
  }
  void push_container(PickleKind kind, std::size_t from) {
    if (pickle_.containers_.size() >= Pickle::kMostContainers) refuse("more lists and dicts than a snapshot has");
    pickle_.containers_.emplace_back();
    PickleValue pushed;
    pushed.kind = kind;
    pushed.integer = static_cast<std::int64_t>(pickle_.containers_.size()) - 1;
    move_into(pushed, from);
    push(pushed);
  }
  // What lies on the stack from `from` on.
  void move_into(const PickleValue& container, std::size_t from) {
    values_ += stack_.size() - from;
    if (values_ > Pickle::kMostValues) refuse("more values than a snapshot has");
    auto& list = pickle_.containers_[static_cast<std::size_t>(container.integer)];
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(from);
    list.insert(list.end(), begin, stack_.end());
    stack_.erase(begin, stack_.end());
  }
  // The place above which a mark's values lie.
  std::size_t mark() {
    if (marks_.empty() || marks_.back() > stack_.size()) refuse("an end without its beginning");
    const std::size_t place = marks_.back();
    marks_.pop_back();
    return place;
  }
  std::size_t below_top(std::size_t count) const {
    const std::size_t least = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() < least + count) refuse("a value is missing");
    return stack_.size() - count;
  }
  void extend(PickleKind kind, std::size_t from) {
    if (from == 0 || stack_[from - 1].kind != kind) refuse("entries without their list or dict");
    if (kind == PickleKind::Dict && (stack_.size() - from) % 2 != 0) refuse("a key without its value");
    const PickleValue container = stack_[from - 1];
    move_into(container, from);
  }
  void remember(std::uint64_t number) {
    if (memo_.size() >= Pickle::kMostContainers) refuse("more remembered values than a snapshot has");
    memo_[number] = stack_[below_top(1)];
  }
  void recall(std::uint64_t number) {
    const auto found = memo_.find(number);
    if (found == memo_.end()) refuse("a remembered value that is none");
    push(found->second);
  }

  [[noreturn]] void refuse_opcode(unsigned opcode) const {
    for (const auto& [object, name] : kObjects)
      if (object == opcode)
        refuse(
            fmt::format("opcode {} makes an object of Python, which could run code and is never read{}", name, imported(opcode)),
            "save plain data: torch.cuda.memory._dump_snapshot(FILE)");
    if (opcode < 0x80 && kTextProtocol.find(static_cast<char>(opcode)) != std::string_view::npos)
      refuse("a pickle of protocol 0", "write it with pickle.dump and protocol 2 or more");
    refuse(fmt::format("opcode {:#04x} is none of plain data", opcode));
  }
  // ": torch.device", where the opcode names it.
  std::string imported(unsigned opcode) const {
    if (opcode != 'c') return "";
    std::string name;
    for (std::size_t i = next_, lines = 0; i < bytes_.size() && lines < 2 && name.size() < 80; ++i) {
      if (bytes_[i] == '\n') {
        if (++lines == 1) name += '.';
      } else {
        name += bytes_[i] < ' ' || bytes_[i] > '~' ? '?' : bytes_[i];
      }
    }
    return ": " + name;
  }

  void step() {
    at_ = next_;
    const auto opcode = static_cast<unsigned>(number(1));
    switch (opcode) {
      case 0x80:  // PROTO
        if (const std::uint64_t protocol = number(1); protocol < 2 || protocol > 5) refuse(fmt::format("protocol {}", protocol));
        return;
      case 0x95:  // FRAME
        return static_cast<void>(number(8));
      case '.':
        if (stack_.size() != 1 || !marks_.empty()) refuse("it ends inside of a value");
        pickle_.root_ = stack_.back();
        ended_ = true;
        return;
      case '(':
        if (marks_.size() >= Pickle::kMostContainers) refuse("nested deeper than a snapshot");
        return marks_.push_back(stack_.size());
      case '0':  // POP
        return stack_.resize(below_top(1));
      case '2':  // DUP
        return push(stack_[below_top(1)]);
      case 'N':
        return push({});
      case 0x88:
      case 0x89:
        return push_integer(opcode == 0x88, PickleKind::Boolean);
      case 'K':
        return push_integer(static_cast<std::int64_t>(number(1)));
      case 'M':
        return push_integer(static_cast<std::int64_t>(number(2)));
      case 'J':
        return push_integer(static_cast<std::int32_t>(static_cast<std::uint32_t>(number(4))));
      case 0x8a:  // LONG1, LONG4
        return push_long(number(1));
      case 0x8b:
        return push_long(number(4));
      case 'G':
        return push_real();
      case 0x8c:  // SHORT_BINUNICODE, SHORT_BINBYTES, SHORT_BINSTRING
      case 'C':
      case 'U':
        return push_text(1);
      case 'X':  // BINUNICODE, BINBYTES, BINSTRING
      case 'B':
      case 'T':
        return push_text(4);
      case 0x8d:  // BINUNICODE8, BINBYTES8
      case 0x8e:
        return push_text(8);
      case ']':
      case ')':
        return push_container(PickleKind::List, stack_.size());
      case '}':
        return push_container(PickleKind::Dict, stack_.size());
      case 'l':
      case 't':
        return push_container(PickleKind::List, mark());
      case 'd': {
        const std::size_t from = mark();
        if ((stack_.size() - from) % 2 != 0) refuse("a key without its value");
        return push_container(PickleKind::Dict, from);
      }
      case 0x85:
      case 0x86:
      case 0x87:  // TUPLE1 to TUPLE3
        return push_container(PickleKind::List, below_top(opcode - 0x84));
      case 'e':
        return extend(PickleKind::List, mark());
      case 'u':
        return extend(PickleKind::Dict, mark());
      case 'a':
        return extend(PickleKind::List, below_top(1));
      case 's':
        return extend(PickleKind::Dict, below_top(2));
      case 0x94:  // MEMOIZE
        return remember(memo_.size());
      case 'q':
        return remember(number(1));
      case 'r':
        return remember(number(4));
      case 'h':
        return recall(number(1));
      case 'j':
        return recall(number(4));
      default:
        refuse_opcode(opcode);
    }
  }

  Pickle& pickle_;
  const std::string& bytes_;
  std::size_t next_ = 0, at_ = 0;  // at_: of the opcode
  bool ended_ = false;
  std::size_t values_ = 0;
  std::vector<PickleValue> stack_;
  std::vector<std::size_t> marks_;
  std::unordered_map<std::uint64_t, PickleValue> memo_;
};

Pickle::Pickle(std::string bytes, std::string name) : bytes_(std::move(bytes)), name_(std::move(name)) {
  PickleParser(*this).run();
}

const PickleValue* Pickle::find(const PickleValue& value, std::string_view key) const {
  if (value.kind != PickleKind::Dict) return nullptr;
  const auto& entries = containers_[static_cast<std::size_t>(value.integer)];
  for (std::size_t i = 0; i + 1 < entries.size(); i += 2)
    if (text(entries[i]) == key) return &entries[i + 1];
  return nullptr;
}

std::string_view Pickle::text(const PickleValue& value) const {
  if (value.kind != PickleKind::Text) return {};
  const auto place = static_cast<std::size_t>(value.integer);
  const std::size_t length_bytes = place & 15, begin = place >> 4;
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    length |= static_cast<std::size_t>(static_cast<unsigned char>(bytes_[begin + i])) << (8 * i);
  return std::string_view(bytes_).substr(begin + length_bytes, length);
}

std::span<const PickleValue> Pickle::items(const PickleValue& list) const {
  if (list.kind != PickleKind::List) return {};
  return containers_[static_cast<std::size_t>(list.integer)];
}

}  // namespace panpipe
