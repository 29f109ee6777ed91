"""JSON Schema as a lazy automaton with registers: nothing is written out.

Each need of a document has a machine that reads the texts of its values, made when it is first called. A machine holds what
it must remember in registers: letters so far, items so far, the set of members seen. Arrays and objects call the machines of
what lies in them, so a stack of machines reads a nested value, to any depth; where a text may be understood in several ways,
stacks run in parallel.
"""

from .schema import lazy_schema as lazy_schema
