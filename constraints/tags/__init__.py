"""Constraints on parts of a text: free text, tags that free text may trigger, the tool calls of model families.

    free text       ends at the first occurrence of a string, or never, and contains none of some strings
    a tag           begin · content · end
    triggered tags  (free text up to a trigger · the rest of a tag)* · free text

A text is read in one way only: a trigger, or the end of the free text, is taken where it first occurs.
"""
