// The constants of the core that bound a search or size what is kept, in one place. A test compiles the fuzzer with all of them scaled,
// and sees that no answer changes but to an error or to one that is said to be an upper bound.
#pragma once

#include <cstddef>
#include <cstdint>

#ifndef TRACTILE_SCALE_NUM
#define TRACTILE_SCALE_NUM 1
#define TRACTILE_SCALE_DEN 1
#endif

namespace tractile {

template <class T>
constexpr T scaled(T value, T least = 1) {
  return value * TRACTILE_SCALE_NUM / TRACTILE_SCALE_DEN > least ? value * TRACTILE_SCALE_NUM / TRACTILE_SCALE_DEN : least;
}

// What is beyond these is refused with LimitPassed.
constexpr int32_t MOST_DEPTH = scaled(10000);          // frames of a stack
constexpr int32_t MOST_OBSERVERS = scaled(300);        // parts that look at their texts, open at once
constexpr size_t MOST_FOLLOWED = scaled(200000);       // stacks met in one closure
constexpr uint64_t MOST_TAKEN = scaled(4000000);       // places that one search for the fewest tokens visits
constexpr uint64_t MOST_STATES = scaled(300000);       // states of a search for an end, where items differ

// Beyond these a distance is an upper bound, and Automaton::exact says so.
constexpr int EVERY_ORDER = scaled(5);                 // required members still missing, up to which all orders are tried
constexpr uint64_t MOST_SOUGHT = scaled(5000);         // states of a search for fewer tokens, where items differ
constexpr int64_t MOST_SEARCHED = scaled(20000);       // states of all such searches of one mask

// These change no answer.
constexpr uint64_t SLICE = scaled(100000);             // steps of one call, which goes on in the next one
constexpr uint64_t LONG = scaled(10000);               // states of a search beyond which frames are asked whether there is an end
constexpr int64_t MUCH = scaled(10000);                // nodes of the trie from which on a state that reads them alike is looked for
constexpr size_t MOST_AHEAD = scaled(8000);            // numbers of the form of a state, by which others are found that read alike
constexpr size_t MOST_JOINED = scaled(256);            // nodes of a position that is made to remember what was met
constexpr size_t MOST_SPARE = scaled(16);              // lists of tokens that are kept to be filled again
constexpr size_t MOVED = scaled(8, 2);                 // slots of a full hash table that each call moves: it is empty before the next is full
constexpr size_t EACH = scaled(64);                    // elements of a block of a list that grows at its end
constexpr size_t ENTRY = scaled(80);                   // bytes that an entry of a map counts for

}  // namespace tractile
