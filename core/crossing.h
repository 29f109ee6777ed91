// Distances: the min-plus query, by frames.
//
// An activation is a frame that is entered while a token is in progress: a node, its register, a position. It answers at which
// positions the frame may end, by the number of tokens that end inside it. What a call costs is the answer of another activation,
// so the whole is a shortest path in a pushdown system, found in the order of costs (Knuth 1977). Costs are whole numbers, and all
// positions of one cost are one set: each answer is a list of sets, by cost.
//
// Suffix cost of a trie node (`Trie::suffix_cost`): the most tokens that write the rest of a token from there, beginning between two tokens.
// So once the root is reached at cost c, a node inside a token helps only if its own cost is below c less its suffix cost, and exits at
// c + the largest suffix cost or more are not sought. Only tokens that go on with a byte that may follow count: with punctuation nearly
// all have 1. Where parts have budgets this does not hold, as the tokens of each part count.
//
// Budgets of parts (TOKENS) need no registers of their own: a token that ends inside a part has written a byte of it, so the cost of
// an exit says how many have, but for the one in progress. Of exits at one position the cheapest is enough, unless a part still
// lacks tokens: `need` is the number of costs that are told apart.
#pragma once

#include <functional>
#include <map>
#include <queue>
#include <unordered_map>

#include "breaks.h"
#include "bytes.h"
#include "lexer.h"

namespace tractile {

constexpr i32 SOME = FAR - 1;  // a budget that is never used up
constexpr u64 ENDED = ~0ull;  // the register of a frame whose text has ended; of names the lower half is the state at their end
constexpr u64 IN_ORDER = 1ull << 63;  // in the register of a bag's activation: the members that are missing are sought in their order

class Crossing {
 public:
  Crossing(Stacks& stacks, Positions& positions, Lexer& lexer)
      : taken(own_.taken), stacks_(stacks), positions_(positions), lexer_(lexer), account_(own_), breaks_(stacks, positions.trie()), lengths_(stacks, Bytes::BYTES) {}

  // One whose work is counted with that of a first one. `instead`: by which APART is read as another node, which has some of its texts;
  // NONE: not at all. `every_order`: whether members of bags are sought in each order; otherwise of many only some orders are.
  Crossing(Crossing& first, Positions& positions, Lexer& lexer, std::function<i32(i32)> instead, bool every_order = false)
      : taken(first.taken), stacks_(first.stacks_), positions_(positions), lexer_(lexer), account_(first.account_),
        breaks_(first.stacks_, positions.trie()), lengths_(first.stacks_, Bytes::BYTES), instead_(std::move(instead)), every_order_(every_order) {}

  // The fewest tokens from a stack and a position to the end of the text, if they are at most `most`; otherwise more than that.
  // `budgets`: those of the parts that are open. `spelled`: that no part has a budget; otherwise the position is the root.
  // `tables`: those of WITHIN that are open.
  i32 rest(i32 stack, i32 position, i32 budgets, i32 tables, i32 most, bool spelled) {
    i32 answer;
    spelled_ = spelled;
    Turn next;
    last_ = std::min(taken + MOST_TAKEN, account_.stop);
    if (answered(stack, position, budgets, tables, most, answer, next)) return answer;
    std::vector<Turn> open{next};  // from the top of the stack down; no recursion, as stacks are deep
    for (;;) {
      Turn& turn = open.back();
      bool below = false;
      if (turn.act == NONE) {  // a join: the least of its stacks
        std::vector<i32> stacks = stacks_.joined(turn.below);
        for (; !below && turn.cost < i32(stacks.size()); ++turn.cost) {
          below = !answered(stacks[turn.cost], turn.position, turn.budgets, turn.tables, turn.best - 1, answer, next);
          if (!below) turn.best = std::min(turn.best, answer);
        }
      }
      while (turn.act != NONE && !below && turn.cost < turn.best - turn.least && turn.cost <= turn.room) {
        i32 wanted = acts_[turn.act].wanted;
        if (!queue_.empty()) {  // a search that was stopped
          explore_to(turn.act, turn.cost);
        } else if (turn.cost > wanted) {
          bool nothing = turn.taken == taken || acts_[turn.act].drained == FAR;  // nothing was found at the costs before
          if (wanted != NONE && nothing && drained(turn.act)) break;  // it has no dearer exits
          turn.taken = taken;
          explore_to(turn.act, turn.cost + turn.cost / 4);  // far ends are not asked for one by one
        }
        std::map<i32, std::vector<Place>>& exits = acts_[turn.act].exits;
        auto found = exits.find(turn.cost);
        if (found != exits.end() && turn.ends == 0) join(found->second);
        if (found == exits.end() || turn.ends == found->second.size()) {
          ++turn.cost, turn.ends = 0;
          continue;
        }
        const Place end = found->second[turn.ends++];
        i32 budgets = stacks_.observers.after(turn.budgets, turn.cost);
        below = !answered(turn.below, end.position, budgets, end.tables, turn.best - 1 - turn.cost, answer, next);
        if (!below) turn.best = std::min(turn.best, turn.cost + answer);
      }
      if (below) {
        open.push_back(next);
        continue;
      }
      bool found = turn.best <= turn.most;
      if (found) rests_[turn.at] = {turn.best, true};
      else rests_[turn.at].least = std::max(rests_[turn.at].least, turn.most + 1);
      answer = found ? turn.best : FAR;
      open.pop_back();
      if (open.empty()) return answer;
      Turn& above = open.back();
      above.best = std::min(above.best, answer + (above.act == NONE ? 0 : above.cost));
    }
  }

  // No fewer tokens end from a stack on.
  i32 least(i32 stack) { return breaks_.of_stack(stack); }

  size_t bytes() const { return bytes_ + breaks_.bytes() + acts_.size() * sizeof(Act) + index_.bytes() + rest_index_.bytes() + met_index_.bytes() + fewest_index_.bytes() + sought_index_.bytes() + 8 * rests_.capacity(); }
  u64& taken;  // places taken from the queue

  // Stop if the places that were allowed are used up.
  void check() const {
    if (taken >= account_.stop) throw Exhausted("the steps that were allowed are used up");
  }

  // Allow this many places more; beyond them a search stops with Exhausted, and goes on where it is asked again.
  void allow(u64 places) { account_.stop = places > ~taken ? ~0ull : taken + places; }

 private:
  struct Meter {
    u64 taken = 0, stop = ~0ull;
  };
  struct Place {  // where an activation has come: a register of its frame, a position, and what tables around it are in
    u64 reg;
    i32 position, tables;
  };
  struct Caller {
    i32 act;
    u64 after;  // its register then; of a name that was called, its register now
    i32 cost;
    bool name;
  };
  struct Act {
    i32 node;  // or, of the names of a bag, −2 − its table
    u64 reg;   // of names the state and, above it, the label
    i32 tables;  // at its entry
    i32 follow;  // the number of the bytes that may follow it
    i32 need;  // the costs from which on the cheapest exit of a position is enough; NONE: no part has a budget
    i32 wanted = NONE;               // the costs up to which it is to be known
    i32 last = FAR;                  // the costs beyond which an exit at the root that is known serves as well
    i32 drained = NONE;              // the costs up to which nothing is left to find
    std::multimap<i32, Place> places;  // by cost, those not taken yet
    std::map<i32, std::vector<Place>> exits;  // by cost, only positions that no lower cost has
    std::vector<Caller> callers;
    std::vector<std::pair<i32, i32>> called;  // activations and the cost at which they were called
  };

  struct Met {  // positions, together
    std::vector<i32> positions;
    i32 root;  // the cost at which the root was met first
  };

  struct Turn {  // the rest of one stack, being sought; of a join, which has no activation: itself, and how many were asked
    i32 below, at, act, most, cost, best, position, budgets, tables, room, least;  // `least`: tokens that `below` takes at least
    u64 taken;  // when it was last sought
    size_t ends;  // of this cost, that were asked
  };

  // Whether the fewest tokens of the rest of a stack are known; then they are in `answer`, otherwise `turn` begins the search for them.
  bool answered(i32 stack, i32 position, i32 budgets, i32 tables, i32 most, i32& answer, Turn& turn) {
    answer = FAR;
    if (most < 0) return true;
    for (; stack != NONE; stack = stacks_.frame(stack).below) {  // observers whose parts have been read
      Frame f = stacks_.frame(stack);
      if (f.node == JOIN || f.reg != 1 || stacks_.nodes[f.node].kind < WITHIN) break;
      if (stacks_.nodes[f.node].kind == TOKENS) {
        // the part was open at the start, so the token in progress has written a byte of it
        i64 tokens = stacks_.observers.top(budgets).value >> 1;
        position = counted(stacks_.nodes[f.node], position, tokens, tokens + 1);
        if (position == NONE) return true;
        budgets = stacks_.observers.top(budgets).outer;
      } else if (stacks_.nodes[f.node].kind == WITHIN) {
        tables = stacks_.observers.leave(tables);
        if (tables == NONE) return true;
      }
    }
    if (stack == NONE) {
      if (positions_.has_root(position)) answer = 0;
      else if (positions_.ends_token(position) && most >= 1) answer = 1;
      return true;
    }
    if (breaks_.of_stack(stack) > most) return true;
    Index::Key key{u64(u32(stack)), u64(u32(position)), u64(u32(budgets)) | u64(u32(tables)) << 32};
    i32 at = rest_index_.find(key);
    if (at == NONE) {
      rest_index_.put(key, at = i32(rests_.size()));
      rests_.push_back({0, false});
    }
    answer = rests_[at].least;
    if (rests_[at].exact || answer > most) return true;
    Frame f = stacks_.frame(stack);
    turn = {f.below, at, NONE, most, 0, most + 1, position, budgets, tables, i32(stacks_.observers.room(budgets, FAR)), breaks_.of_stack(f.below), ~0ull, 0};
    if (f.node == JOIN) turn.below = stack;
    else turn.act = activation(f.node, f.reg, {position, tables}, spelled_ ? NONE : told_apart(stacks_.observers.lacking(budgets)));
    return false;
  }

  // The nodes of a position at which a part with a budget may end: after so many tokens at the root, so many elsewhere.
  i32 counted(const Node& part, i32 position, i64 at_root, i64 elsewhere) {
    auto fits = [&](i64 tokens) { return tokens >= part.low && (part.high < 0 || tokens <= part.high); };
    if (position == NONE || fits(at_root) == fits(elsewhere)) return fits(elsewhere) ? position : NONE;
    if (fits(elsewhere)) return positions_.without(position, Positions::ROOT);
    return positions_.has_root(position) ? Positions::ROOT : NONE;
  }

  static i32 told_apart(i64 need) {
    if (need >= FAR) throw LimitPassed("a part needs more than " + std::to_string(FAR) + " tokens");
    return i32(std::max<i64>(0, need));
  }

  struct At {
    i32 position, tables;
  };

  i32 activation(i32 node, u64 reg, At at, i32 need) {
    const i32 follow = node < 0 ? Follow::ANY : stacks_.follow.of(node);
    Index::Key who{u64(u32(node)), u64(follow), 0};
    i32 seen = who_index_.find(who);
    if (seen == NONE) who_index_.put(who, seen = whos_++);
    Index::Key key{u64(u32(seen)) | u64(u32(at.tables)) << 32, reg, u64(u32(at.position)) | u64(u32(need)) << 32};
    i32 known = index_.find(key);
    if (known != NONE) return known;
    i32 number = i32(acts_.size());
    index_.put(key, number);
    acts_.emplace_back();
    acts_[number].node = node;
    acts_[number].reg = reg;
    acts_[number].tables = at.tables;
    acts_[number].need = need;
    acts_[number].follow = follow;
    reach(number, 0, {node < NONE ? u64(u32(reg)) : reg & ~IN_ORDER, at.position, at.tables});
    return number;
  }

  // Find the exits of an activation up to a cost, and those of all that it calls.
  void explore_to(i32 act, i32 cost) {
    raise_wanted(act, cost);
    while (!queue_.empty()) {
      auto [at, number] = queue_.top();
      queue_.pop();
      work(number, -at);
    }
  }

  void raise_wanted(i32 first, i32 cost) {
    for (raised_.push({cost, first}); !raised_.empty();) {
      auto [most, number] = raised_.top();
      raised_.pop();
      Act& act = acts_[number];
      most = std::min(most, limit(number));
      if (act.wanted >= most) continue;
      for (auto at = act.places.upper_bound(act.wanted); at != act.places.end() && at->first <= most; at = act.places.upper_bound(at->first))
        queue_.push({-at->first, number});
      act.wanted = most;
      for (auto [other, at] : act.called)
        if (most - at > acts_[other].wanted) raised_.push({most - at, other});
    }
  }

  // An activation has come to a place at some cost.
  void reach(i32 number, i32 cost, Place place) {
    Act& act = acts_[number];
    act.places.emplace(cost, place);
    bytes_ += ENTRY;
    if (cost <= std::min(act.wanted, act.last)) queue_.push({-cost, number});
  }

  // The most tokens of the text of an activation that may be needed.
  i32 limit(i32 number) const {
    i32 node = acts_[number].node;
    if (node < 0 || stacks_.nodes[node].kind != TOKENS || stacks_.nodes[node].high < 0) return acts_[number].last;
    return i32(std::min<i64>(FAR, stacks_.nodes[node].high));
  }

  // The tokens that an activation still needs at some cost before its cheapest exits are enough.
  i32 lacking(i32 number, i32 cost) const {
    i32 need = acts_[number].need;
    return need == NONE ? NONE : std::max(0, need - cost);
  }

  // Whether neither an activation nor those that it calls have places left, within the room of parts; they will not have any later.
  bool drained(i32 first) {
    asked_.assign(1, {first, FAR});
    seen_.clear();
    bool found = true;
    for (size_t i = 0; found && i < asked_.size(); ++i) {  // the nearest first: some of them often have places
      auto [number, most] = asked_[i];
      Act& act = acts_[number];
      if (act.drained >= most) continue;
      seen_.push_back({number, std::exchange(act.drained, most)});
      i32 inside = std::min(most, limit(number));
      if (!act.places.empty() && act.places.begin()->first <= inside) found = false;
      for (auto [other, cost] : act.called)
        if (inside == FAR || inside >= cost) asked_.push_back({other, inside == FAR ? FAR : inside - cost});
    }
    for (; !found && !seen_.empty(); seen_.pop_back()) acts_[seen_.back().first].drained = seen_.back().second;
    return found;
  }

  // Whether a COUNT was in the same state and position before, at no higher cost, with no more characters, and already with enough
  // of them: then it can end wherever this one can. If not, the place is noted.
  bool dominated(i32 number, i32 cost, Place place) {
    i32 node = acts_[number].node;
    if (node < 0 || stacks_.nodes[node].kind != COUNT) return false;
    i32 count = i32(Stacks::high(place.reg));
    if (count < stacks_.nodes[node].low) return false;
    Index::Key key{u64(u32(number)) | level(number, cost), Stacks::low(place.reg) | u64(u32(place.tables)) << 32, u64(u32(place.position)) << 1 | 1};
    i32 known = fewest_index_.find(key);
    if (known == NONE) {
      fewest_index_.put(key, i32(fewest_.size()));
      fewest_.push_back(count);
      return false;
    }
    if (count >= fewest_[known]) return true;
    fewest_[known] = count;
    return false;
  }

  // Of places in one state whose texts have enough characters, leave the one with the fewest: it can end wherever the others can.
  void keep_least(i32 node, std::vector<Place>& places) const {
    auto key = [](const Place& at) { return std::make_tuple(Stacks::low(at.reg), at.tables, Stacks::high(at.reg)); };
    std::sort(places.begin(), places.end(), [&](const Place& a, const Place& b) { return key(a) < key(b); });
    auto is_above = [&](const Place& a, const Place& b) {
      return Stacks::low(a.reg) == Stacks::low(b.reg) && a.tables == b.tables && i64(Stacks::high(a.reg)) >= stacks_.nodes[node].low;
    };
    places.erase(std::unique(places.begin(), places.end(), is_above), places.end());
  }

  // The costs of an activation that are not told apart have one level, which is above 32 bits.
  u64 level(i32 number, i32 cost) const { return u64(std::min(cost, acts_[number].need)) << 32; }

  // The nodes of a position that an activation has not met before under a key; from now on they are met. If it met the root there, nodes of
  // low suffix cost are left out: from the root other tokens write the rest as cheaply. `next`: the number of the bytes that may come.
  i32 unmet(i32 number, i32 cost, u64 key, At entry, i32 next) {
    i32 position = entry.position;
    Index::Key at{u64(u32(number)) | level(number, cost), key, u64(u32(entry.tables)) << 32 | 9};
    i32 known = met_index_.find(at);
    if (known == NONE) {
      met_index_.put(at, known = i32(met_.size()));
      met_.push_back({{}, FAR});
    }
    Met& met = met_[known];
    if (met.root == FAR && positions_.has_root(position)) met.root = cost;
    if (met.root <= cost && acts_[number].need == NONE) position = positions_.costly(position, cost + 2 - met.root, stacks_.follow.bytes_of(next), next);
    for (size_t i = 0; i < met.positions.size() && position != NONE; ++i) position = positions_.without(position, met.positions[i]);
    if (position != NONE) met.positions.push_back(position);
    return position;
  }

  // Places of one cost that differ in their positions only go on together: each set of positions is followed anew.
  void work(i32 number, i32 cost) {
    while (cost <= acts_[number].last) {
      auto [first, end] = acts_[number].places.equal_range(cost);
      if (first == end) return;
      std::vector<Place> here;
      for (auto at = first; at != end; ++at) here.push_back(at->second);
      acts_[number].places.erase(first, end);
      bytes_ -= ENTRY * here.size();
      try {
        join(here);
        std::reverse(here.begin(), here.end());  // those with few characters first
        for (; !here.empty() && cost <= acts_[number].last; here.pop_back()) {
          check();
          if (taken >= last_) throw LimitPassed("the fewest tokens to the end take more than " + std::to_string(MOST_TAKEN) + " steps to find");
          take(number, cost, here.back());
        }
      } catch (...) {  // a later search goes on here
        for (Place each : here) reach(number, cost, each);
        queue_.push({-cost, number});
        throw;
      }
    }
  }

  void take(i32 number, i32 cost, Place place) {
    i32 node = acts_[number].node, instead = node;
    if (instead_ && node >= 0 && !place.reg && stacks_.nodes[node].kind == APART) instead = instead_(node);
    ++taken;
    if (dominated(number, cost, place)) return;
    place.position = unmet(number, cost, place.reg, {place.position, place.tables}, Follow::ANY);  // costs come in their order, so what was met was no dearer
    if (place.position == NONE) return;
    if (Stacks::high(place.reg) == Stacks::high(ENDED)) exit(number, cost, Stacks::low(place.reg), {place.position, place.tables});
    else if (instead == NONE) return;
    else if (instead != node) call(number, cost, activation(instead, stacks_.first(instead), {place.position, place.tables}, lacking(number, cost)), ENDED);
    else if (node < NONE) read(number, cost, place, -2 - node);
    else if (stacks_.nodes[node].kind == LEX || stacks_.nodes[node].kind == COUNT) read(number, cost, place, stacks_.nodes[node].tables[0]);
    else follow(number, cost, place);
  }

  // A frame that calls others.
  void follow(i32 number, i32 cost, Place place) {
    i32 node = acts_[number].node;
    i32 need = lacking(number, cost);
    const Kind kind = stacks_.nodes[node].kind;
    At at{place.position, place.tables};
    if (kind == TOKENS) return follow_budget(number, cost, at);
    if (kind == BAG && !Stacks::low(place.reg) && !every_order_) {
      u64 in_order = acts_[number].reg & IN_ORDER;
      if (in_order && stacks_.ends(node, place.reg)) return exit(number, cost, 0, at);
      u64 left = this->left(node, place.reg) | in_order;
      if (left != acts_[number].reg) return call(number, cost, activation(node, left, at, need), ENDED);
      // some of many members that are missing, which others have in common, and then the rest
      auto [some, others] = stacks_.divided(node, place.reg, in_order ? 1 : 2 * EVERY_ORDER);
      if (others != place.reg) return call(number, cost, activation(node, some | IN_ORDER, at, need), others);
    }
    if (stacks_.ends(node, place.reg)) {
      At outside = at;
      if (kind == WITHIN) outside.tables = stacks_.observers.leave(at.tables);
      if (outside.tables != NONE) exit(number, cost, place.reg, outside);
      if (cost > acts_[number].last) return;
    }
    std::vector<std::pair<i32, u64>> calls;
    if (kind == BAG && stacks_.table_of(node, place.reg).label[Stacks::low(place.reg)] < 0) {
      // each name is read by an activation that is shared by all bags with these names
      i32 table = stacks_.table_number(node, place.reg);
      u64 state = Stacks::low(place.reg);
      for (i32 label : sought(number, place.reg))
        if (stacks_.tables[table].leads_to(i32(state), label)) call(number, cost, activation(-2 - table, u64(label) << 32 | state, at, need), place.reg, true);
      return;
    }
    stacks_.calls(node, place.reg, [&](i32 called, u64 after) { calls.push_back({called, after}); });
    At inside = at;
    if (kind == WITHIN && !calls.empty()) inside.tables = stacks_.observers.enter(node, at.tables);
    for (auto [called, after] : calls) {  // at the nodes from which it can go on, fewer of which are told apart than of all
      const i32 next = stacks_.follow.next(called);
      const ByteSet& bytes = stacks_.follow.bytes_of(next);
      i32 position = inside.position;
      if (need == NONE && positions_.has_root(position)) position = positions_.costly(position, 2, bytes, next);
      else if (positions_.size(position) < MANY_NODES) position = positions_.before(position, bytes, next);
      if (position != NONE) call(number, cost, activation(called, stacks_.first(called), {position, inside.tables}, need), after);
    }
  }

  // A part with a budget, entered at a position; by layers, so that a node at which the part ends on the way of the token in
  // progress is one of the entry only if the text of the part is empty.
  void follow_budget(i32 number, i32 cost, At at) {
    const Node& part = stacks_.nodes[acts_[number].node];
    i32 inside = part.parts[0], need = std::max(lacking(number, cost), told_apart(part.low));
    for (i32 entry : positions_.layered(at.position)) call(number, cost, activation(inside, stacks_.first(inside), {entry, at.tables}, need), u64(u32(entry)));
  }

  // The nodes of a position at which a part may end that was entered at `entry` and in which so many tokens have ended since.
  i32 within_budget(const Node& part, i32 tokens, i32 entry, i32 position) {
    if (tokens > 0) return counted(part, position, tokens, tokens + 1);
    i32 begun = counted(part, positions_.without(position, entry), 1, 1);
    return part.low > 0 ? begun : positions_.both(begun, positions_.shared(position, entry));
  }

  void call(i32 number, i32 cost, i32 called, u64 after, bool name = false) {
    Caller caller{number, after, cost, name};
    acts_[called].callers.push_back(caller);
    const i32 node = acts_[number].node;
    const bool goes_on = node >= 0 && !name && after != ENDED && stacks_.nodes[node].kind != TOKENS;
    if (goes_on) cost += breaks_.of_frame(node, after);  // what is left of the frame takes tokens as well
    acts_[number].called.push_back({called, cost});
    bytes_ += sizeof(Caller) + 8;
    if (i32 most = std::min(acts_[number].wanted, limit(number)) - cost; most > acts_[called].wanted) raise_wanted(called, most);
    for (auto& [c, exits] : acts_[called].exits) {
      join(exits);
      for (Place exit : exits) returned(caller, c, exit);
    }
  }

  void returned(Caller caller, i32 cost, Place end) {
    u64 after = caller.after;
    i32 position = end.position;
    if (caller.name) {
      after = Stacks::pair(Stacks::high(after), u32(end.reg));
    } else if (acts_[caller.act].node < NONE) {
      after = Stacks::pair(Stacks::high(ENDED), u32(end.reg));
    } else if (i32 node = acts_[caller.act].node; node >= 0 && stacks_.nodes[node].kind == TOKENS) {
      position = within_budget(stacks_.nodes[node], cost, i32(after), position);
      if (position == NONE) return;
      after = ENDED;
    }
    reach(caller.act, caller.cost + cost, {after, position, end.tables});
  }

  // The text of an activation may end: its callers go on.
  void exit(i32 number, i32 cost, u64 reg, At at) {
    Act& act = acts_[number];
    if (act.node >= 0) reg = 0;  // those of a frame go on alike
    Place end{reg, unmet(number, cost, 1ull << 63 | reg, at, act.follow), at.tables};
    if (end.position == NONE) return;
    std::vector<Place>& exits = act.exits[cost];
    bytes_ += sizeof(Place) + (exits.empty() ? ENTRY : 0);
    exits.push_back(end);
    if (positions_.has_root(end.position)) met_root(number, cost, 1);
    for (size_t i = 0, callers = act.callers.size(); i < callers; ++i) returned(acts_[number].callers[i], cost, end);
  }

  // An activation may end at the root at some cost. All its ends go on alike where no table is open: no name goes on after its end.
  // `least`: 1 if that end was found, so that others of this cost are of use only at costly nodes; 2 if it is to be found yet.
  void met_root(i32 number, i32 cost, i32 least) {
    Act& act = acts_[number];
    if (act.need == NONE && !act.tables) act.last = std::min(act.last, cost + std::max(least, most_suffix_cost(number)) - 2);
  }

  // Read to the end of the token in progress, in a frame that reads bytes: reach the places behind it at cost + 1, and exits before it at `cost`.
  void read(i32 number, i32 cost, Place place, i32 table) {
    i32 node = acts_[number].node;
    const i32 label = node < NONE ? i32(Stacks::high(acts_[number].reg)) : NONE;
    bool counts = node >= 0 && stacks_.nodes[node].kind == COUNT;
    i32 state = i32(Stacks::low(place.reg));
    i64 before = counts ? Stacks::high(place.reg) : 0;
    const Table& t = stacks_.tables[table];
    auto long_enough = [&](i64 count) {
      const Node& n = stacks_.nodes[node];
      return count >= n.low && (n.high < 0 || count <= n.high);
    };
    auto end = [&](i32 state) { return node < NONE ? u64(u32(t.labelled[t.label[state]])) : 0; };  // all that go on alike are one
    if (t.label[state] >= 0 && (!counts || long_enough(before)) && (label == NONE || t.leads_to(state, label))) exit(number, cost, end(state), {place.position, place.tables});
    if (!t.reads(state) || cost > acts_[number].last) return;
    if (cost == acts_[number].last && !place.tables && most_suffix_cost(number) < 2) return;
    std::vector<Place> ends, inside;
    const Lexed& found = lexer_.of(table, state, place.position, place.tables);
    for (const Lexed::Exit& e : found.exits)
      if (node < NONE ? t.leads_to(e.state, label) : !counts || long_enough(before + e.characters))
        if (i32 to = goes_on(number, e.position); to != NONE) ends.push_back({node < NONE ? end(e.state) : 0, to, e.env});
    for (const Lexed::Group& g : found.groups) {
      if (label != NONE && !t.leads_to(g.state, label)) continue;
      u64 after = u64(u32(g.state));
      if (!counts || stacks_.goes_on(node, place.reg, t, g.state, g.characters, after)) inside.push_back({after, Positions::ROOT, g.env});
    }
    if (counts) keep_least(node, inside);
    join(ends);
    for (Place end : ends) exit(number, cost, end.reg, {end.position, end.tables});
    for (Place at : inside)  // nothing is sought beyond what is still of use
      if (node < NONE ? t.label[u32(at.reg)] >= 0 : stacks_.ends(node, at.reg)) met_root(number, cost + 1, 2);
    for (Place at : inside) {
      u64 entry = node < NONE ? Stacks::pair(u64(label), at.reg) : at.reg;  // of an activation that all share who come there, and lack as many tokens
      if (cost + 1 < acts_[number].last) call(number, cost + 1, activation(node, entry, {Positions::ROOT, at.tables}, lacking(number, cost + 1)), ENDED);
      else reach(number, cost + 1, at);
    }
  }

  // The nodes of a position from which what may follow an activation goes on.
  i32 goes_on(i32 number, i32 position) {
    const i32 follow = acts_[number].follow;
    return follow == Follow::ANY ? position : positions_.before(position, stacks_.follow.bytes_of(follow), follow);
  }

  // The largest suffix cost of a token that goes on from a nonempty text of an activation's node to what may follow it.
  i32 most_suffix_cost(i32 number) {
    const i32 node = acts_[number].node, follow = acts_[number].follow;
    const u64 key = u64(u32(node)) << 32 | u32(follow);
    if (i32 known = suffix_cost_.find(key); known != NONE) return known;
    const ByteSet &last = node < NONE ? stacks_.tables[-2 - node].last : stacks_.follow.last(node), &next = stacks_.follow.bytes_of(follow);
    i32 found = 0;
    for (int byte = 0; byte < 256; ++byte)
      for (int to = 0; last.has(u8(byte)) && to < 256; ++to)
        if (next.has(u8(to))) found = std::max<i32>(found, positions_.trie().suffix_cost_after[byte][to]);
    suffix_cost_.put(key, found);
    return found;
  }

  // The labels that a bag's next name is sought among.
  const std::vector<i32>& sought(i32 number, u64 reg) {
    i32 node = acts_[number].node;
    u64 entry = acts_[number].reg;  // a name that was in progress at the entry is read in any case
    bool begun = Stacks::low(entry) && Stacks::high(entry) == Stacks::high(reg);
    Index::Key key{u64(u32(node)), Stacks::high(reg), begun};
    i32 known = sought_index_.find(key);
    if (known != NONE) return sought_[known];
    std::vector<u64> found = stacks_.labels(node, reg);
    if (!begun && !every_order_ && stacks_.nodes[node].parts.size() > EVERY_ORDER) keep_short_ways(node, reg, found);
    sought_index_.put(key, i32(sought_.size()));
    sought_.emplace_back();
    for (i32 label = 0; label < i32(stacks_.nodes[node].parts.size()); ++label)
      if (found[label / 64] >> label % 64 & 1) sought_.back().push_back(label);
    return sought_.back();
  }

  // Reduce `labels` to those through which a distance is sought. Of required members that are missing: all, if they are at most EVERY_ORDER;
  // the first two, if at most twice as many; else the first. Others are read only where more members are needed, those with the shortest
  // texts first.
  void keep_short_ways(i32 node, u64 reg, std::vector<u64>& labels) {
    const Node& bag = stacks_.nodes[node];
    const BagState& read = stacks_.bag_read(reg);
    std::vector<u64> kept(labels.size(), 0);
    auto is = [](const std::vector<u64>& bits, i32 m) { return bits[m / 64] >> m % 64 & 1; };
    auto keep = [&](const std::vector<i32>& some, i64 most) {
      if (some.size() <= EVERY_ORDER) most = EVERY_ORDER;
      for (i64 i = 0; i < most && i < i64(some.size()); ++i) kept[some[i] / 64] |= 1ull << some[i] % 64;
    };
    std::vector<i32> missing, optional, others;
    for (i32 m = 0; m < bag.members; ++m)
      if (is(bag.required, m) && !is(read.bits, m)) missing.push_back(m);
    keep(missing, missing.size() <= 2 * EVERY_ORDER ? 2 : 1);
    if (i64 lacking = bag.low - read.count - i64(missing.size()); lacking > 0) {
      for (i32 m : shortest_first(node))
        if (!is(bag.required, m) && !is(read.bits, m)) optional.push_back(m);
      for (i32 label = bag.members; label < i32(bag.parts.size()); ++label) others.push_back(label);
      keep(optional, bag.ordered ? bag.members : lacking <= 2 * EVERY_ORDER ? 2 : 1);
      keep(others, i64(others.size()));
    }
    for (size_t w = 0; w < labels.size(); ++w) labels[w] &= kept[w];
  }

  // What a bag's register says of the members that are left, between two of them: it is shared by all ways to it. Where members that may be
  // absent are not sought, those that were read do not matter.
  u64 left(i32 node, u64 reg) { return stacks_.nodes[node].parts.size() > EVERY_ORDER ? stacks_.without_optional(node, reg) : reg; }

  // The members of a bag, those with the shortest texts first.
  const std::vector<i32>& shortest_first(i32 node) {
    std::vector<i32>& found = members_[node];
    if (found.empty()) {
      std::vector<i64> length;
      for (i32 m = 0; m < stacks_.nodes[node].members; ++m) {
        found.push_back(m);
        length.push_back(lengths_.of_member(node, m));
      }
      std::stable_sort(found.begin(), found.end(), [&](i32 a, i32 b) { return length[a] < length[b]; });
    }
    return found;
  }

  // Put the positions of places together that differ in nothing else.
  void join(std::vector<Place>& places) {
    if (places.size() < 2) return;
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) { return std::tie(a.reg, a.tables) < std::tie(b.reg, b.tables); });
    std::vector<Place> found;
    for (Place each : places)
      if (!found.empty() && found.back().reg == each.reg && found.back().tables == each.tables) found.back().position = positions_.both(found.back().position, each.position);
      else found.push_back(each);
    places.swap(found);
  }

  struct Rest {
    i32 least;
    bool exact;
  };

  Stacks& stacks_;
  Positions& positions_;
  Lexer& lexer_;
  Meter own_;  // of the first one
  Meter& account_;
  Stable<Act> acts_;
  Index index_, who_index_, rest_index_, met_index_, sought_index_;
  i32 whos_ = 0;  // pairs of a node and what may follow it
  Breaks breaks_;
  Bytes lengths_;
  std::function<i32(i32)> instead_;
  std::unordered_map<i32, std::vector<i32>> members_;  // of bags, those with the shortest texts first
  Stable<std::vector<i32>> sought_;  // labels
  std::vector<Met> met_;
  IndexOf<u64> suffix_cost_;  // by node and what may follow it
  Index fewest_index_;
  std::vector<i32> fewest_;  // characters
  std::vector<Rest> rests_;
  std::priority_queue<std::pair<i32, i32>> queue_;  // negated costs, activations: the lowest cost first, of one cost the activation that was made last
  std::priority_queue<std::pair<i32, i32>> raised_;  // by `raise_wanted`: the highest cost first, so each is raised once
  std::vector<std::pair<i32, i32>> asked_, seen_;    // by `drained`: activations, and costs up to which they are looked at
  size_t bytes_ = 0;
  u64 last_ = 0;  // of `taken` in this search
  bool spelled_ = false;  // of this search
  const bool every_order_ = false;
};

}  // namespace tractile
