"""From bytes to tokens: which tokens a state of a byte automaton allows, where they lead, and how far acceptance is."""
