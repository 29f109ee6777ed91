"""The report of results: the papers' tables and figures, theirs beside ours."""
