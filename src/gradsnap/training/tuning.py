"""Chooses the settings of a run on a validation part, within a time budget.

Successive halving: many trials of few steps, the best third of them longer, the best
few at full length with two seeds. All that is decided depends on the records of trials
alone, seconds included, so that a search that was interrupted goes on as if it had not
been.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradsnap.errors import InputError
from gradsnap.training.grid import Grid, Trial
from gradsnap.training.trials import Result, Summary, Trials

PROBE_STEPS = 24
STEPS = (200, 2000)
"""The least and the most steps of a full run."""
FULL_RUNS = 6
"""So many fit into half of the budget; the other half is for the shorter ones."""
FIRST, SECOND = (8, 0.3), (3, 0.5)
"""What the steps are divided by, and the share of the budget that may be used then."""
MOST_TRIALS = 48
OTHER_FINALISTS = 2
TRAINING = "Training for the codes"

WORTH = 0.002
"""MAP that a layer must gain over plain, at least, to be worth its while."""


@dataclass(eq=False)
class Tuner:
    """One search."""

    trials: Trials
    grid: Grid
    budget: float
    """Seconds, all in all."""
    seed: int
    steps: int | None = None
    """Of a full run; None: as many as the budget allows."""
    tell: Callable[["Tuner"], None] = lambda _: None
    """Is called before each trial and at the end."""
    now: str = ""
    """What is being done, in a few words."""
    probes: list[Result] = field(default_factory=list)
    """Short runs that say how long a step takes, and nothing else."""
    results: dict[tuple[Trial, int, int], Result] = field(default_factory=dict)
    """By trial, steps and seed, in the order they were asked for."""

    def run(self) -> "Tuner":
        """Goes through all rungs.

        Raises:
            InputError: the budget is too short for a single run.
        """
        steps = self._probe()
        points = self.grid.trials(self.seed)[:MOST_TRIALS]
        divisor, share = FIRST
        tried = self._rung(points, steps // divisor, share)
        divisor, share = SECOND
        self._rung(self._promoted(tried), steps // divisor, share)
        self._finals(points, steps)
        self.now = "done"
        self.tell(self)
        return self

    @property
    def used(self) -> float:
        """Seconds used so far, those of earlier commands included."""
        return sum(one.seconds for one in (*self.probes, *self.results.values()))

    def summaries(self) -> list[Summary]:
        """Every trial at every number of steps, the best first.

        Steps are a setting like others: a shorter run may well rank better.
        """
        runs: dict[tuple[Trial, int], list[Result]] = {}
        for (trial, steps, _), result in self.results.items():
            runs.setdefault((trial, steps), []).append(result)
        found = [Summary(*setting, seeds) for setting, seeds in runs.items()]
        return sorted(found, key=lambda one: (-one.mean, -one.steps))

    def best(self, kind: str | None = None) -> Summary | None:
        """The best setting, of one layer or of all."""
        found = self.summaries()
        return next((one for one in found if kind in (None, one.trial.layer)), None)

    def choice(self) -> Summary:
        """The best of all.

        Raises:
            InputError: all of them failed.
        """
        best = self.best()
        if best is None or not best.mean:
            errors = {one.error for one in self.results.values() if one.error}
            raise InputError(f"no run came to its end: {'; '.join(errors)}")
        return best

    def settings(self, chosen: Summary) -> list[str]:
        """What ``gradsnap train`` needs, beside the base, to train it again."""
        first = min(result.seed for result in chosen.results)
        own = [f"run.steps={chosen.steps}", f"run.seed={first}"]
        return [*chosen.trial.settings, *own]

    def verdict(self) -> str:
        """Whether training for the codes pays."""
        best, plain = self.best(), self.best("plain")
        if best is None or plain is None or len({*self._full_kinds()}) == 1:
            return (
                "There was no time for a full run both of plain and of another layer: "
                "whether training for the codes pays is not known."
            )
        gain, error = best.mean - plain.mean, math.hypot(best.error, plain.error)
        figures = f"plain {plain}, {best.trial.layer} {best} on the validation part"
        if best.trial.layer == "plain":
            return f"{TRAINING} does not pay here: none ranks above plain, {plain}."
        if gain <= WORTH:
            return f"{TRAINING} does not pay here: {figures}; layer.name=plain will do."
        if gain <= error:
            return (
                f"{TRAINING} does not pay for certain: {figures}, a gain within one "
                f"standard error, {error:.3f}."
            )
        return f"{TRAINING} pays: {figures}, a gain of {gain:.3f}."

    def untried(self) -> list[str]:
        """What there was no time for."""
        every, tried = self.grid.trials(self.seed), {one for one, *_ in self.results}
        left = len(every) - len(tried)
        missing = [kind for kind in self.grid.kinds if kind not in self._full_kinds()]
        said = [f"{left} of {len(every)} settings of the grid"] if left else []
        return said + [f"a full run of {kind}" for kind in missing]

    def _full_kinds(self) -> list[str]:
        return [one.trial.layer for one in self.summaries() if one.steps == self.steps]

    def _probe(self) -> int:
        """Measures a short run, and says how many steps a full one has."""
        kind = self.grid.kinds[-1]  # the slowest
        trial = next(one for one in self.grid.trials(self.seed) if one.layer == kind)
        self._say("first short runs, to measure a step")
        for seed in (self.seed, self.seed + 1):  # the first one also compiles
            probed = self.trials.run(trial, PROBE_STEPS, seed)
            if probed.error:
                raise InputError(probed.error)
            self.probes.append(probed)
        left, each = self.budget - self.used, probed.training_seconds / PROBE_STEPS
        least, most = STEPS
        possible = int(left / 2 / FULL_RUNS / max(each, 1e-6))
        self.steps = self.steps or max(least, min(most, possible))
        expected = probed.seconds_for(self.steps)
        if expected > left:
            raise InputError(
                f"--minutes {self.budget / 60:g} is too short: one run of {self.steps} "
                f"steps takes about {expected:.0f} seconds here, and {self.used:.0f} "
                f"are used; give {(self.used + 8 * expected) / 60:.1f} or more"
            )
        return self.steps

    def _rung(self, points: Sequence[Trial], steps: int, share: float) -> list[Trial]:
        """Those that were tried before their share of the budget was used."""
        full = self.steps or steps  # for one full run there must be time, too
        room = max((self._expected(one, full) for one in points), default=0.0)
        share, tried = min(share, 1 - room / self.budget), []
        for trial in points:
            if not self._try(trial, max(steps, 1), self.seed, share):
                break
            tried.append(trial)
        return tried

    def _promoted(self, tried: Sequence[Trial]) -> list[Trial]:
        """The best third, the best of each kind, and each kind where the best stands.

        Codebooks, dimension and rate are moved from the best to the others, so that
        layers are compared on the same ground.
        """
        order = [one.trial for one in self.summaries() if one.trial in tried]
        third = order[: math.ceil(len(order) / 3)]
        of_kinds = {trial.layer: trial for trial in reversed(order)}  # their best
        firsts = sorted(of_kinds.values(), key=order.index)
        moved = [trial.on_the_ground_of(order[0]) for trial in firsts]
        return list(dict.fromkeys([*moved, *third, *firsts]))

    def _finals(self, points: Sequence[Trial], steps: int) -> None:
        """Full runs of each kind, second seeds for the leading, then a few others."""
        longest = sorted(self.summaries(), key=lambda one: -one.steps)
        ranked = [one.trial for one in longest] + list(points)
        of_kinds = {trial.layer: trial for trial in reversed(ranked)}  # their best
        firsts = [of_kinds.pop("plain"), *sorted(of_kinds.values(), key=ranked.index)]
        others = [t for t in dict.fromkeys(ranked) if t not in firsts]
        for trial in firsts:
            must = trial is firsts[0]  # room was left for one
            self._try(trial, steps, self.seed, share=math.inf if must else 1)
        self._confirm()
        for trial in others[:OTHER_FINALISTS]:
            self._try(trial, steps, self.seed)
        self._confirm()
        self._climb(steps)

    def _climb(self, steps: int) -> None:
        """Full runs around the best, one setting moved, while one of them is better.

        Short runs favour high rates and small mixtures, which learn fast at first.
        """
        best = None
        while (leading := self.best()) is not None and leading.trial != best:
            best = leading.trial
            for trial in self.grid.around(best):
                if not self._try(trial, steps, self.seed):
                    return
            self._confirm()

    def _confirm(self) -> None:
        """A second seed for the best plain one and the best of all, while both last.

        What led by luck leads no more then, and the next one is confirmed.
        """
        more = True
        while more:
            leading = [self.best("plain"), self.best()]
            single = [one for one in leading if one and len(one.results) == 1]
            more = any(self._try(one.trial, one.steps, self.seed + 1) for one in single)

    def _try(self, trial: Trial, steps: int, seed: int, share: float = 1.0) -> bool:
        """Runs a trial if there is time for it; says whether there was."""
        expected = self._expected(trial, steps)
        if self.used + expected > share * self.budget:
            return False
        self._say(f"{steps} steps of {trial}")
        result = self.trials.run(trial, steps, seed)
        self.results[trial, steps, seed] = result
        return True

    def _expected(self, trial: Trial, steps: int) -> float:
        """Seconds, by the longest run of the same kind so far."""
        every = self.results.values()
        same = [one for one in every if one.trial.layer == trial.layer]
        known = max(same, key=lambda one: one.steps, default=self.probes[-1])
        return known.seconds_for(steps)

    def _say(self, words: str) -> None:
        self.now = words
        self.tell(self)
