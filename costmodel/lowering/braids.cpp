// The program of a group of passes: woven, so that a collective of one runs under compute of another, or in sequence.
// docs/models/braids.md.
#include <algorithm>

#include "costmodel/lowering/pass_draft.hpp"

namespace panpipe {

namespace {

using UnitPieces = std::vector<UnitPiece>;

// A run of one member's pieces that stays together: the compute of the previous unit after its collective, compute that another
// piece may wait for, its collective, and the weight gradients among and after it. Weight gradients with nothing before them form
// separate groups.
struct Portion {
  std::size_t first = 0, end = 0;
};

std::vector<Portion> portions_of(const UnitPieces& pieces) {
  std::vector<Portion> portions;
  bool has_chained = false, has_collective = false, only_tail = false;  // of the current portion
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const UnitPiece& piece = pieces[i];
    const bool goes_on = !piece.weight && has_chained && !has_collective && !piece.tail &&
                         (only_tail ? pieces[i - 1].in_block == piece.in_block : pieces[i - 1].unit == piece.unit);
    const bool joins = piece.collective || (piece.weight && has_chained) || goes_on;
    if (portions.empty() || !joins) {
      portions.push_back({i, i});
      has_chained = has_collective = false;
      only_tail = true;
    }
    portions.back().end = i + 1;
    has_chained = has_chained || !piece.weight;
    has_collective = has_collective || piece.collective;
    only_tail = only_tail && piece.tail;
  }
  return portions;
}

// Whether some piece of a portion has this trait.
bool has_piece(const UnitPieces& pieces, const Portion& portion, bool value, bool UnitPiece::*trait) {
  return std::any_of(pieces.begin() + static_cast<std::ptrdiff_t>(portion.first),
                     pieces.begin() + static_cast<std::ptrdiff_t>(portion.end),
                     [&](const UnitPiece& piece) { return piece.*trait == value; });
}
bool in_block(const UnitPieces& pieces, const Portion& portion) { return has_piece(pieces, portion, true, &UnitPiece::in_block); }

// One member's portions: those before its first layer, its layers, and those after them.
struct Strand {
  const UnitPieces* pieces = nullptr;
  std::vector<Portion> portions;
  std::size_t first = 0, end = 0;  // of the layers
  std::size_t next = 0;
};

Strand strand_of(const UnitPieces& pieces) {
  Strand strand;
  strand.pieces = &pieces;
  strand.portions = portions_of(pieces);
  const std::size_t count = strand.portions.size();
  strand.end = count;
  while (strand.first < count && !in_block(pieces, strand.portions[strand.first])) ++strand.first;
  if (strand.first == count) {  // no layers: all of it is woven
    strand.first = 0;
    return strand;
  }
  while (!in_block(pieces, strand.portions[strand.end - 1])) --strand.end;
  // The last unit's compute after its collective is not a portion to weave, because its collective would not be hidden yet.
  const Portion& last = strand.portions[strand.end - 1];
  if (strand.end - strand.first > 1 && !has_piece(pieces, last, false, &UnitPiece::tail)) --strand.end;
  return strand;
}

bool sends_to_all(const TaskGraph& graph, const UnitPiece& piece) {
  if (!piece.collective || piece.flow < 0) return false;
  const CollectiveCost& cost = graph.flows[piece.flow].cost;
  return cost.kind == CollectiveKind::AllToAll && cost.among == Among::Expert;
}

class Weaver {
 public:
  explicit Weaver(const Lowering& lowering) : lowering_(lowering) {}

  DraftProgram weave(const std::vector<UnitPieces>& members) {
    result_.ends.resize(members.size());
    std::vector<Strand> strands;
    for (const UnitPieces& pieces : members) strands.push_back(strand_of(pieces));
    // The head's gradients lead, the head's forward trails; between them the member that has done the smallest share of its
    // layers goes next, the first member at a tie.
    for (std::size_t m = 0; m < strands.size(); ++m) take(strands[m], m, strands[m].first);
    for (std::size_t next = choose(strands); next < strands.size(); next = choose(strands))
      take(strands[next], next, strands[next].next + 1);
    for (std::size_t m = 0; m < strands.size(); ++m) take(strands[m], m, strands[m].portions.size());
    return std::move(result_);
  }

 private:
  static double share(const Strand& strand) {
    return static_cast<double>(strand.next - strand.first) / static_cast<double>(strand.end - strand.first);
  }

  // A member that has just sent an all-to-all yields to the others, and finally to the portions after their layers, because rows
  // of experts take longer than sums of a tensor group, and a member's lists are not uniform.
  std::size_t choose(const std::vector<Strand>& strands) const {
    const std::size_t none = strands.size();
    std::size_t best = none, behind = none;
    for (std::size_t m = 0; m < none; ++m) {
      const Strand& strand = strands[m];
      if (m == sending_) continue;
      if (strand.next < strand.end && (best == none || share(strand) < share(strands[best]))) best = m;
      const bool trails = strand.next >= strand.end && strand.next < strand.portions.size();
      if (behind == none && trails && in_block(*strand.pieces, strand.portions[strand.next])) behind = m;
    }
    if (best != none || sending_ >= none || strands[sending_].next >= strands[sending_].end) return best;
    return behind != none ? behind : sending_;
  }

  // A member's portions up to that one, with each piece as a step: a weight gradient runs next to all its collectives.
  void take(Strand& strand, std::size_t member, std::size_t up_to) {
    for (; strand.next < up_to; ++strand.next) {
      const Portion& portion = strand.portions[strand.next];
      sending_ = kNobody;
      for (std::size_t i = portion.first; i < portion.end; ++i) {
        const UnitPiece& piece = (*strand.pieces)[i];
        if (sends_to_all(lowering_.graph, piece)) sending_ = member;
        result_.steps.push_back(step_of(lowering_, piece));
        ProgramStep& step = result_.steps.back().step;
        step.member = static_cast<std::uint8_t>(member);
        step.free = piece.weight;
        step.chunk = piece.chunk;
        MemberEnds& ends = result_.ends[member];
        ends.all = static_cast<std::int32_t>(result_.steps.size());
        if (!piece.weight) ends.gradient = ends.all;
      }
    }
  }

  static constexpr std::size_t kNobody = static_cast<std::size_t>(-1);

  const Lowering& lowering_;
  DraftProgram result_;
  std::size_t sending_ = kNobody;  // member whose last portion sent an all-to-all
};

// Trainers that weave all-to-alls of experts run them next to one stream, which has the compute of all members and waits for
// every other collective of theirs (Megatron-Core, combined_1f1b.py: a stream each for computation and communication). Those are
// mostly of NVLink, and would queue behind an all-to-all over the network that they do not share.
UnitPieces beside_all_to_alls(const TaskGraph& graph, UnitPieces pieces) {
  const UnitCost* unit = nullptr;
  bool sent = false;  // by the unit so far
  for (UnitPiece& piece : pieces) {
    if (piece.unit != unit) sent = false;
    unit = piece.unit;
    if (piece.collective && piece.flow >= 0 && graph.flows[piece.flow].cost.among != Among::Expert) {
      piece.time = graph.flows[piece.flow].cost.time.base();
      piece.given = true;
      piece.collective = piece.hidden = false;
      piece.flow = -1;
    }
    piece.chunk = false;
    piece.tail = piece.tail && sent;
    sent = sent || piece.collective;
  }
  return pieces;
}

// In sequence, each as it runs alone.
std::int32_t add_atomic_program(Lowering& lowering, const std::vector<std::int32_t>& members) {
  TaskGraph& graph = lowering.graph;
  Program program = graph.programs[members.front()];
  program.first_step = static_cast<std::int32_t>(graph.steps.size());
  program.members = static_cast<std::uint8_t>(members.size());
  program.steps = 0;
  program.atomic = program.all_inputs = true;
  program.breakdown = {};
  for (std::size_t m = 0; m < members.size(); ++m) {
    const Program member = graph.programs[members[m]];
    for (std::int32_t s = member.first_step; s < member.first_step + member.steps; ++s) {
      ProgramStep step = graph.steps[s];
      step.member = static_cast<std::uint8_t>(m);
      graph.steps.push_back(step);
    }
    program.steps += member.steps;
    program.breakdown = program.breakdown + member.breakdown;
  }
  return lowering.add(program);
}

}  // namespace

void add_group_program(Lowering& lowering, const std::vector<std::int32_t>& members) {
  const auto [known, is_new] = lowering.group_programs.try_emplace(members, -1);
  if (!is_new) return;
  if (lowering.scenario.schedule.braid == Braid::Atomic) {
    known->second = add_atomic_program(lowering, members);
    return;
  }
  std::vector<UnitPieces> pieces;
  const bool sends = std::any_of(members.begin(), members.end(), [&](std::int32_t m) {
    const UnitPieces& all = lowering.drafts[m].pieces;
    return std::any_of(all.begin(), all.end(), [&](const UnitPiece& piece) { return sends_to_all(lowering.graph, piece); });
  });
  PassDraft whole;
  for (const std::int32_t m : members) {
    const PassDraft& pass = lowering.drafts[m];
    pieces.push_back(sends ? beside_all_to_alls(lowering.graph, pass.pieces) : pass.pieces);
    whole.breakdown = whole.breakdown + pass.breakdown;
    whole.host += pass.host;
    whole.site = pass.site;
  }
  DraftProgram woven = Weaver(lowering).weave(pieces);
  known->second = add_program(lowering, woven, whole);
}

}  // namespace panpipe
