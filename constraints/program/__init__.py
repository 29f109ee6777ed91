"""What people write, as data: byte automata (``tables.py``) and hash-consed nodes over them (``nodes.py``)."""
