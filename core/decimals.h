// The decimals between two bounds, as an automaton that compares digits.
//
// A number without its sign is compared with each bound as it is read:
//
//     before the point    fewer digits than the bound: less; more digits: more; as many: as the first digit that differs
//     after the point     as the first digit that differs; zeros follow the digits of the bound
#pragma once

#include <array>
#include <map>

#include "nfa.h"

namespace tractile::automata {

enum Compared : i32 { LESS = -1, EQUAL = 0, MORE = 1 };
enum Part : i32 { WHOLE, ZERO, FRACTION };  // digits before the point, a zero that no digit may follow, digits after the point

// One end of a range of numbers: its digits before the point, and after it without zeros at the end.
struct Bound {
  std::string whole, tail;
  bool negative, strict, zero;
  Compared side;  // how the numbers compare with it

  // `text`: a decimal without an exponent.
  Bound(std::string text, bool strict, Compared side) : strict(strict), side(side) {
    zero = text.find_first_of("123456789") == std::string::npos;
    negative = text[0] == '-' && !zero;
    if (text[0] == '-') text.erase(0, 1);
    const size_t point = std::min(text.find('.'), text.size());
    whole = text.substr(0, point);
    tail = point < text.size() ? text.substr(point + 1) : "";
    tail.erase(tail.find_last_not_of('0') + 1);
  }

  // A digit as a byte: the one after `count` digits of a part.
  i32 digit(i32 part, i32 count) const {
    const std::string& digits = part == FRACTION ? tail : whole;
    return size_t(count) < digits.size() ? digits[size_t(count)] : '0';
  }

  // The comparison at the end of the part before the point.
  i32 after_whole(i32 part, i32 count, i32 compared) const {
    const i32 read = part == ZERO ? 1 : count, size = i32(whole.size());
    return read == size ? compared : read < size ? LESS : MORE;
  }

  // Whether a number that ends here is on the right side.
  bool admits(bool below_zero, i32 part, i32 count, i32 compared) const {
    if (part != FRACTION) compared = after_whole(part, count, compared), count = 0;
    i32 found = compared == EQUAL && size_t(count) < tail.size() ? i32(LESS) : compared;
    if (below_zero != negative && (found != EQUAL || !zero)) found = below_zero ? LESS : MORE;
    else if (negative || (below_zero && zero)) found = -found;
    return found == side || (found == EQUAL && !strict);
  }
};

// The automaton of the decimals between two bounds. `integer`: only whole numbers; with `point` they may end in a point and zeros.
inline Handle between_bounds(const std::vector<Bound>& bounds, bool integer, bool point) {
  using State = std::array<i32, 5>;  // below zero, part, digits read in that part, comparison with each bound
  size_t most[2] = {0, 0};           // digits are counted as far as a bound has any
  for (const Bound& each : bounds) most[0] = std::max(most[0], each.whole.size() + 1), most[1] = std::max(most[1], each.tail.size() + 1);
  std::vector<State> states = {{0, WHOLE, 0, EQUAL, EQUAL}};
  std::map<State, i32> number = {{states[0], 0}};
  std::vector<Edge> edges;
  for (size_t at = 0; at < states.size(); ++at) {
    spend(10);
    const State state = states[at];
    const auto [negative, part, count, first, second] = state;
    auto move = [&](i32 low, i32 high, const State& after) {
      auto [known, fresh] = number.insert({after, i32(states.size())});
      edges.push_back({i32(at), low, high, known->second});
      if (fresh) states.push_back(after);
    };
    const bool begins = part == WHOLE && !count;
    if (begins && !negative) move('-', '-', {1, WHOLE, 0, first, second});
    if (part != FRACTION && count && point) {
      State after = {negative, FRACTION, 0, EQUAL, EQUAL};
      for (size_t i = 0; i < bounds.size(); ++i) after[3 + i] = bounds[i].after_whole(part, count, state[3 + i]);
      move('.', '.', after);
    }
    if (part == ZERO) continue;
    const i32 end = part == FRACTION && integer ? '1' : '9' + 1;
    std::vector<i32> cuts = {'0', end};
    for (const Bound& each : bounds)
      for (i32 cut : {each.digit(part, count), each.digit(part, count) + 1})
        if (cut < end) cuts.push_back(cut);
    if (begins) cuts.push_back('1');
    std::sort(cuts.begin(), cuts.end());
    cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
      State after = {negative, begins && cuts[i] == '0' ? i32(ZERO) : part, std::min(count + 1, i32(most[part == FRACTION])), EQUAL, EQUAL};
      for (size_t b = 0; b < bounds.size(); ++b) {
        const i32 digit = bounds[b].digit(part, count);
        after[3 + b] = state[3 + b] != EQUAL ? state[3 + b] : (cuts[i] > digit) - (cuts[i] < digit);
      }
      move(cuts[i], cuts[i + 1] - 1, after);
    }
  }
  Handle made = of_edges(i32(states.size()), edges);
  made->start = {0};
  for (size_t at = 0; at < states.size(); ++at) {
    bool ends = states[at][2] > 0;
    for (size_t i = 0; i < bounds.size(); ++i) ends = ends && bounds[i].admits(states[at][0] != 0, states[at][1], states[at][2], states[at][3 + i]);
    if (ends) made->accept.push_back(i32(at));
  }
  return made;
}

}  // namespace tractile::automata
