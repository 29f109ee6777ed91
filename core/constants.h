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
constexpr uint64_t COMPARED = scaled(256);             // bytes of texts that are compared in the time of one of these states

constexpr int64_t MOST_NAMES = scaled(1 << 16);        // states of the names of an object: TooManyStates

// Beyond these a distance is an upper bound, and Automaton::exact says so.
constexpr int EVERY_ORDER = scaled(5);                 // required members still missing, up to which all orders are tried
constexpr uint64_t MOST_SOUGHT = scaled(5000);         // states of a search for fewer tokens, where items differ
constexpr int64_t MOST_SEARCHED = scaled(20000);       // states of all such searches of one mask

// These change no answer.
constexpr uint64_t SLICE = scaled(100000);             // steps of one call, which goes on in the next one
constexpr uint64_t LONG = scaled(10000);               // states of a search beyond which frames are asked whether there is an end
constexpr int64_t MUCH = scaled(10000);                // nodes of the trie from which on a state that reads them alike is looked for
constexpr size_t MANY_NODES = scaled(64);              // nodes of a position that are told apart together; or read on from, where a state reads
constexpr int32_t FEW_BYTES = scaled(16);              //     at most so many bytes
constexpr size_t MOST_ENTRIES = scaled(100000);        // frames of which a lower bound is kept; of others it is 0
constexpr int32_t MOST_READ = scaled(5000);            // states of a table whose texts lower bounds look at
constexpr int64_t MOST_ALONE = scaled(4);              // items of a repeat that lower bounds look at one by one
constexpr int64_t MOST_SHORT = scaled(60);             // bytes of a short text whose tokens are an upper bound
constexpr int32_t MOST_TRIED = scaled(250);           // places that are visited to find such a text
constexpr int32_t MOST_ABOVE = scaled(8);              // tokens above a lower bound up to which it is sought
constexpr int32_t MOST_MORE = scaled(1);               // bytes that it is longer than the shortest
constexpr size_t MOVED = scaled(8, 2);                 // slots of a full hash table that each call moves: it is empty before the next is full
constexpr size_t EACH = scaled(64);                    // elements of a block of a list that grows at its end
constexpr size_t ENTRY = scaled(80);                   // bytes that an entry of a map counts for

constexpr double OFTEN = scaled(1000);                 // units of work from one look at the limits of a request to the next
constexpr int64_t MOST_TIMES = scaled(3);              // sets for each state that `resolved` allows
constexpr int32_t MANY_STATES = scaled(10000);         // of a deterministic automaton, beyond which it is not made minimal
constexpr int64_t MOST_WORK = scaled(int64_t(100000000));  // comparisons of states for one repeat, beyond which each is compared with itself alone

}  // namespace tractile
