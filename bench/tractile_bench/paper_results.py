"""Published results of the papers, for comparison. Paper 1: Dang et al. 2026; paper 2: Loula et al. 2025."""

MODEL_1 = "Llama-3.1-8B-Instruct"
"""The model of paper 1, except on CommonGen, where it is GPT2-Large."""

SATISFIED = {
    "json": {"LCD": {4: 95.26, 16: 95.40}, "GCD": {4: 100.0, 16: 100.0}, "P-GCD": {4: 100.0, 16: 100.0}},
    "python": {"LCD": {4: 98.12, 16: 99.20}, "GCD": {4: 100.0, 16: 100.0}, "P-GCD": {4: 100.0, 16: 100.0}},
}
"""Paper 1, Table 1: percentage of texts on xLAM that satisfy the constraint, by syntax, method and particles."""

LATENCY = {
    "Unconstrained": "1.69 ± 0.01",
    "LCD": "1.83 ± 0.02",
    "GCD": "1.86 ± 0.04",
    "P-GCD (H = 1,024)": "5.26 ± 0.01",
    "P-GCD (H = 4,096)": "8.23 ± 0.63",
    "P-GCD (H = 16,384)": "17.30 ± 0.39",
}
"""Paper 1, Table 2: milliseconds for a token on xLAM, on one H100, batch of 16."""

BY_HMM = {
    "LCD": {1: 66.4, 2: 68.2, 4: 69.3, 8: 69.7, 16: 69.7},
    "P-GCD (H = 1,024)": {1: 65.4, 2: 68.6, 4: 70.2, 8: 71.1, 16: 71.5},
    "P-GCD (H = 16,384)": {1: 66.5, 2: 69.2, 4: 70.5, 8: 71.5, 16: 71.6},
}
"""Paper 1, Table 3: accuracy on xLAM in JSON, in percent, by particles."""

SPIDER = {
    "LCD": {1: 59.8, 4: 65.4, 8: 67.2},
    "GCD": {1: 59.0, 4: 66.8, 8: 69.0},
    "P-GCD": {1: 56.2, 4: 67.9, 8: 69.1},
}
"""Paper 1, Table 4: execution accuracy on Spider, in percent, by particles."""

COLUMNS_2 = ("goal-inference", "molecules", "data-science", "spider")
"""The domains of paper 2 in the order of its tables."""

MODELS_2 = {
    "goal-inference": "Llama 3.1 8B",
    "molecules": "Llama 3.1 8B",
    "data-science": "Llama 3 70B",
    "spider": "Llama 3.1 8B-Instruct",
}

SCORES_2: dict[str, tuple[str, str, str, str]] = {
    "base-lm": ("0.063 (0.05, 0.08)", "0.132 (0.12, 0.15)", "0.213 (0.19, 0.24)", "0.531 (0.51, 0.55)"),
    "lcd-unweighted": ("0.086 (0.07, 0.11)", "0.189 (0.17, 0.21)", "–", "0.559 (0.54, 0.58)"),
    "grammar-only-is": ("0.083 (0.06, 0.11)", "0.228 (0.21, 0.25)", "–", "0.597 (0.57, 0.62)"),
    "sample-rerank": ("0.289 (0.24, 0.34)", "0.392 (0.36, 0.42)", "–", "0.581 (0.56, 0.60)"),
    "grammar-only-smc": ("0.401 (0.34, 0.46)", "0.205 (0.18, 0.23)", "–", "0.596 (0.57, 0.62)"),
    "full-is": ("0.257 (0.21, 0.31)", "0.404 (0.37, 0.44)", "0.346 (0.31, 0.39)", "0.618 (0.59, 0.64)"),
    "full-smc": ("0.419 (0.37, 0.48)", "0.577 (0.56, 0.59)", "0.407 (0.36, 0.45)", "0.620 (0.60, 0.64)"),
}
"""Paper 2, Table 2: scores with 10 particles."""

SMALLER_2: dict[str, tuple[str, str, str, str]] = {
    "base-lm": ("0.012 (0.01, 0.02)", "0.032 (0.02, 0.04)", "0.114 (0.09, 0.14)", "0.224 (0.207, 0.241)"),
    "lcd-unweighted": ("0.046 (0.03, 0.06)", "0.031 (0.02, 0.04)", "–", "0.250 (0.232, 0.270)"),
    "grammar-only-is": ("0.037 (0.02, 0.06)", "0.041 (0.03, 0.05)", "–", "0.301 (0.281, 0.323)"),
    "sample-rerank": ("0.087 (0.06, 0.12)", "0.119 (0.09, 0.16)", "–", "0.299 (0.278, 0.321)"),
    "grammar-only-smc": ("0.052 (0.03, 0.08)", "0.050 (0.04, 0.06)", "–", "0.302 (0.281, 0.324)"),
    "full-is": ("0.079 (0.05, 0.11)", "0.122 (0.09, 0.16)", "0.225 (0.19, 0.26)", "0.348 (0.326, 0.372)"),
    "full-smc": ("0.125 (0.09, 0.16)", "0.517 (0.48, 0.55)", "0.285 (0.24, 0.34)", "0.348 (0.325, 0.374)"),
}
"""Paper 2, Table 4: scores with 10 particles and Llama 3.2 1B (3.1 8B for data science)."""

CORRELATIONS_2: dict[str, tuple[str, str, str, str]] = {
    "grammar-only-is": (
        "0.138 (0.10, 0.18)",
        "0.218 (0.16, 0.28)",
        "0.217 (0.18, 0.26)",
        "0.810 (0.79, 0.83)",
    ),
    "full-is": ("0.677 (0.64, 0.71)", "0.570 (0.53, 0.61)", "0.289 (0.25, 0.33)", "0.796 (0.78, 0.81)"),
    "full-smc": ("0.793 (0.76, 0.82)", "0.826 (0.81, 0.84)", "0.370 (0.31, 0.42)", "0.810 (0.79, 0.83)"),
}
"""Paper 2, Table 3: correlation of relative weight and score."""

STEERING_2 = {"full-smc": "0.620 (0.60, 0.64)", "smc-steering": "0.607 (0.58, 0.63)"}
"""Paper 2, Table 7: Spider; full SMC with 10 particles, SMC Steering with 5 and beams of 3."""
