"""The playground: a local page on which one follows constrained generation token by token.

:class:`~.session.Session` has the numbers, :class:`~.server.PlaygroundServer` hands them to ``page.html`` as JSON.
"""
