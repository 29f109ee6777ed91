"""Goals of planning problems in PDDL, on Planetarium."""
