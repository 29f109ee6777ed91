"""The playground: a local page on which one follows constrained generation token by token.

:class:`~.session.Session` computes the numbers, :class:`~.server.PlaygroundServer` sends them to ``page.html`` as JSON.
"""
