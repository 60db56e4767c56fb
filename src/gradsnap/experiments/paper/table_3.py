"""Table 3: MAP of codes of 12, 24, 32 and 48 bits on three data sets."""

LABEL = "tabr"
CAPTION = (
    "Mean Average Precision (MAP) for Different Number of Bits on three benchmark "
    "datasets"
)

BITS = (12, 24, 32, 48)

Four = tuple[str, str, str, str]
ABSENT: Four = ("N/A", "N/A", "N/A", "N/A")

MAPS: dict[str, dict[str, Four]] = {
    "cifar10": {
        "CNNH*": ("0.484", "0.476", "0.472", "0.489"),
        "SHFC": ("0.552", "0.566", "0.558", "0.581"),
        "DQN": ("0.554", "0.558", "0.564", "0.580"),
        "DHN": ("0.555", "0.594", "0.603", "0.621"),
        "DRSCH": ("-", "0.622", "0.629", "0.631"),
        "DSCH": ("-", "0.611", "0.617", "0.618"),
        "Ours": ("-", "0.692", "0.747", "0.752"),
    },
    "mnist": {
        "CNNH*": ("0.969", "0.975", "0.971", "0.975"),
        "SHFC": ABSENT,
        "DQN": ABSENT,
        "DHN": ABSENT,
        "DRSCH": ("-", "0.974", "0.979", "0.971"),
        "DSCH": ("-", "0.967", "0.972", "0.975"),
        "Ours": ("-", "0.973", "0.980", "0.981"),
    },
    "nuswide": {
        "CNNH*": ("0.617", "0.663", "0.657", "0.688"),
        "SHFC": ("0.674", "0.697", "0.713", "0.715"),
        "DQN": ("0.768", "0.776", "0.783", "0.792"),
        "DHN": ("0.708", "0.735", "0.748", "0.758"),
        "DRSCH": ABSENT,
        "DSCH": ABSENT,
        "Ours": ("-", "0.812", "0.839", "0.849"),
    },
}
"""By data set and method, a figure for each of ``BITS``."""

NOTES = (
    "The paper did not run its rivals: it reports their figures from their papers.",
    "CNNH* is the enhanced variant of CNNH by Lai et al. (2015).",
    'The paper\'s "DSCH" row equals the DSRH row of a later survey.',
    'Its DRSCH "32-bit" column equals a 36-bit one.',
    "DRSCH and DSCH on NUS-WIDE: their paper has another setting (N/A).",
)
