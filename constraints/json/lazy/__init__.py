"""JSON Schema as a pushdown automaton with registers, whose states are made as they are met.

Each need of a document has a machine that reads the texts of its values, made when it is first called. A machine keeps its
counters and sets in registers: letters so far, items so far, the set of members seen. Arrays and objects call the machines of
their parts (a recursive transition network), so a call stack of machines reads nested values of any depth. Where a text has
several parses, several stacks run in parallel.
"""

from .schema import lazy_schema as lazy_schema
