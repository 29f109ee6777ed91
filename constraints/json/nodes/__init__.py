"""Values as nodes: the texts of a schema's values, written as a program.

a number, a word, a string        a table, or a table with so many characters
an array                          its items one after another; with a count of some, a rule for each state
an array of listed items          a bag of their texts, if no two of its items are equal
an object                         a bag of members; with several orders, a bag for each

The surface syntax is a parameter of the writer: :class:`~..text.Style`.
"""

from .schema import value_node
from .values import Reading, ValueWriter

__all__ = ["Reading", "ValueWriter", "value_node"]
