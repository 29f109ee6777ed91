"""Function calls: the Berkeley Function-Calling Leaderboard and xLAM."""
