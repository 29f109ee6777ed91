"""Plans for STRIPS problems, by best-first search with the delete relaxation (actions that delete nothing).

The heuristic is the length of a relaxed plan whose actions are chosen by additive costs; first actions of the relaxed plan are
preferred (Hoffmann and Nebel 2001; Helmert 2006). Plans need not be the shortest.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence

from .strips import Action, Domain, Problem, State


def run(state: State, plan: Sequence[Action]) -> State | None:
    """Run a plan and return the state after it; None if one of its actions is not applicable."""
    for action in plan:
        if not action.applies(state):
            return None
        state = action.after(state)
    return state


def find_plan(domain: Domain, problem: Problem, max_states: int = 20_000) -> list[Action] | None:
    """Search for a plan to the goal; None if there is none, or none is found within ``max_states`` expanded states."""
    relaxed = Relaxed(list(domain.actions_on(problem)), problem.goal)
    came: dict[State, tuple[State, Action] | None] = {problem.init: None}
    queue: list[tuple[int, int, int, State]] = [(0, 0, 0, problem.init)]
    looked = 0
    while queue and looked < max_states:
        state = heapq.heappop(queue)[3]
        if relaxed.goal <= state:
            return _path(came, state)
        looked += 1
        estimate = relaxed.estimate(state)
        if estimate is None:
            continue
        steps, helpful = estimate
        for action in relaxed.actions:
            if action.applies(state) and (after := action.after(state)) not in came:
                came[after] = state, action
                heapq.heappush(queue, (steps, action not in helpful, len(came), after))
    return None


def _path(came: dict[State, tuple[State, Action] | None], state: State) -> list[Action]:
    """Return the actions that lead from the initial state to a state, by following ``came`` backwards."""
    path: list[Action] = []
    while (step := came[state]) is not None:
        state, action = step
        path.append(action)
    return path[::-1]


class Relaxed:
    """The relaxed problem: without deletions and negative preconditions."""

    def __init__(self, actions: list[Action], goal: Sequence[tuple[str, ...]]) -> None:
        self.actions, self.goal = actions, frozenset(goal)
        self.users = defaultdict(list)
        for index, action in enumerate(actions):
            for atom in action.needs:
                self.users[atom].append(index)

    def estimate(self, state: State) -> tuple[int, set[Action]] | None:
        """Return the length of a relaxed plan from a state and its first actions; None if it cannot reach the goal."""
        costs = dict.fromkeys(state, 0)
        support: dict[tuple[str, ...], int] = {}
        missing = [len(action.needs) for action in self.actions]
        spent = [1] * len(self.actions)
        queue = [(0, atom) for atom in state]
        queue += [
            (1, atom) for i, n in enumerate(missing) if not n for atom in self._offer(i, 1, costs, support)
        ]
        heapq.heapify(queue)
        done: set[tuple[str, ...]] = set()
        while queue and not self.goal <= done:
            cost, atom = heapq.heappop(queue)
            if atom in done:
                continue
            done.add(atom)
            for index in self.users[atom]:
                missing[index] -= 1
                spent[index] += cost
                if not missing[index]:
                    for new in self._offer(index, spent[index], costs, support):
                        heapq.heappush(queue, (spent[index], new))
        if not self.goal <= done:
            return None
        chosen: set[int] = set()
        wanted = [atom for atom in self.goal if atom in support]
        while wanted:
            index = support[wanted.pop()]
            if index not in chosen:
                chosen.add(index)
                wanted += [atom for atom in self.actions[index].needs if atom in support]
        first = {self.actions[i] for i in chosen if self.actions[i].needs <= state}
        return len(chosen), first

    def _offer(
        self, index: int, cost: int, costs: dict[tuple[str, ...], int], support: dict[tuple[str, ...], int]
    ) -> list[tuple[str, ...]]:
        """Lower the costs of the atoms that an action adds, and return the atoms that became cheaper."""
        found = [atom for atom in self.actions[index].adds if cost < costs.get(atom, cost + 1)]
        for atom in found:
            costs[atom], support[atom] = cost, index
        return found
