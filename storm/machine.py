"""The life of an index as a Hypothesis state machine, beside a dict and brute force."""

import os
import random
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

import torch
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from gradsnap.errors import InputError
from gradsnap.index import Index, load_index
from gradsnap.index.lists import ListedIndex
from storm import good
from storm.model import Model, check, coded
from storm.outcomes import WrongAnswer

seeds = st.integers(0, 10**6)
counts = st.integers(1, 5)
labels = st.integers(0, 2)

KILLED = 3
"""A process may be killed at every third step: each costs as much as ten others."""

steps: list[int] = [0]
"""How many rules ran in this process."""


class IndexLife(RuleBasedStateMachine):
    """Adds, removes, saves, kills; after every step the index is what it should be."""

    variants: Any = tuple(good.VARIANTS)
    home: Path
    """Where it has a folder: a try's own, which goes with its worker."""

    def __init__(self) -> None:
        super().__init__()
        self.place = Path(tempfile.mkdtemp(dir=self.home))
        self.folder = self.place / "life.index"
        self.index: Index = good.fresh("exhaustive")
        self.model, self.saved = Model(), Model()
        self.reader: tuple[Index, Model] | None = None
        self.named, self.count, self.looks = False, 0, 0

    @initialize(data=st.data(), named=st.booleans())
    def begin(self, data: Any, named: bool) -> None:
        variant = data.draw(st.sampled_from(self.variants))
        self.index, self.named = good.fresh(variant), named
        self.index.save(self.folder)

    def teardown(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    # --- changes in memory ---------------------------------------------------

    def _new_ids(self, count: int) -> list[Any]:
        start = self.count
        self.count += count
        return [f"i{n}" if self.named else n for n in range(start, start + count)]

    def _added(self, ids: list[Any], seed: int, label: int) -> torch.Tensor:
        x = good.vectors_for(self.index, len(ids), seed)
        items = coded(self.index, x, label)
        self.model.items |= dict(zip(ids, items, strict=True))
        return x

    @rule(count=counts, seed=seeds, label=labels)
    def add(self, count: int, seed: int, label: int) -> None:
        ids = self._new_ids(count)
        x = self._added(ids, seed, label)
        self.index.add(x, ids, {"label": [label] * count})

    @rule(count=counts, seed=seeds, label=labels)
    def add_codes(self, count: int, seed: int, label: int) -> None:
        if self.index.refiner is not None:
            return
        ids = self._new_ids(count)
        x = self._added(ids, seed, label)
        codes, lists = self.index._encode(self.index._checked(x))
        self.index.add_codes(codes.long(), ids, {"label": [label] * count}, lists=lists)

    def _some(self, seed: int, most: int) -> list[Any]:
        ids = sorted(self.model.items)
        return random.Random(seed).sample(ids, min(most, len(ids)))

    @rule(seed=seeds, count=counts)
    def remove(self, seed: int, count: int) -> None:
        gone = self._some(seed, count)
        if gone:
            self.index.remove(gone)
        for one in gone:
            del self.model.items[one]

    @rule(seed=seeds, label=labels)
    def add_again(self, seed: int, label: int) -> None:
        """An id that was removed comes back as something else."""
        ids = self._some(seed, 1)
        if ids:
            self.index.remove(ids)
            x = self._added(ids, seed, label)
            self.index.add(x, ids, {"label": [label]})

    @rule(seed=seeds)
    def refuse_known(self, seed: int) -> None:
        """An id that is there is refused, and nothing changes."""
        for ids in filter(None, [self._some(seed, 1)]):
            try:
                self.index.add(good.vectors_for(self.index, 1, seed), ids)
            except InputError:
                continue
            raise WrongAnswer(f"{ids} were added twice")

    @rule(seed=seeds, count=counts, label=labels)
    def update(self, seed: int, count: int, label: int) -> None:
        ids = self._some(seed, count)
        if ids:
            self.index.update(ids, {"label": [label] * len(ids)})
        for one in ids:
            self.model.items[one].label = label

    @rule(seed=seeds)
    def rename(self, seed: int) -> None:
        for old in self._some(seed, 1) if self.named else ():
            new = self._new_ids(1)[0]
            self.index.rename({old: new})
            self.model.items[new] = self.model.items.pop(old)

    @rule()
    def compact(self) -> None:
        self.index.compact()

    @rule(seed=seeds)
    def tune(self, seed: int) -> None:
        """As many lists as the recall needs; all of them are looked into again."""
        if isinstance(self.index, ListedIndex) and self.model.items:
            query = good.vectors_for(self.index, 2, seed)
            truth = self.index.search(query, 2).ids
            chosen = self.index.tune(query, truth, 1.0).probes
            if not 1 <= chosen <= self.index.num_lists:
                raise WrongAnswer(f"{chosen} probes of {self.index.num_lists} lists")
            self.index.probes = self.index.num_lists

    # --- the folder ----------------------------------------------------------

    @rule()
    def save(self) -> None:
        self.index.save(self.folder)
        self.saved = self.model.copy()

    @rule(verify=st.booleans())
    def reopen(self, verify: bool) -> None:
        """What was not saved is gone; what was saved is all there."""
        self.index = load_index(self.folder, verify=verify)
        self.model = self.saved.copy()

    @rule()
    def open_reader(self) -> None:
        """A reader keeps its version, whatever a writer does."""
        self.reader = load_index(self.folder), self.saved.copy()

    @rule(seed=seeds)
    def second_writer(self, seed: int) -> None:
        """Another one saves first: we are refused, load again, and nothing is lost."""
        other = load_index(self.folder)
        ids = self._new_ids(1)
        x = good.vectors_for(other, 1, seed)
        other.add(x, ids, {"label": [0]}).save(self.folder)
        self.saved.items[ids[0]] = coded(other, x, 0)[0]
        try:
            self.index.save(self.folder)
        except InputError:
            self.reopen(verify=False)
            return
        raise WrongAnswer("a save went over that of another writer")

    @precondition(lambda self: self.looks % KILLED == 0)
    @rule(seed=seeds, at=st.integers(1, 40), compacts=st.booleans())
    def kill(self, seed: int, at: int, compacts: bool) -> None:
        """A process that adds and saves is killed: the old state, or the new."""
        ids = self._new_ids(2)
        x = good.vectors_for(self.index, 2, seed)
        self._child(x, ids, at, compacts)
        self.reopen(verify=True)
        if ids[0] in self.index:
            items = coded(self.index, x, 1)
            self.saved.items |= dict(zip(ids, items, strict=True))
            self.model = self.saved.copy()

    def _child(self, x: torch.Tensor, ids: list[Any], at: int, compacts: bool) -> None:
        pid = os.fork()
        if pid == 0:
            try:
                _kill_at(at)
                index = load_index(self.folder).add(x, ids, {"label": [1] * len(ids)})
                (index.compact() if compacts else index).save(self.folder)
            finally:  # whatever happened, this process must not go on as the test
                os._exit(0)
        os.waitpid(pid, 0)

    # --- after every step ----------------------------------------------------

    @invariant()
    def as_it_should_be(self) -> None:
        steps[0] += 1
        self.looks += 1
        numbers = random.Random(self.looks)  # of this life alone, to be repeated
        where = numbers.choice((None, None, 0, 1)) if self.model.items else None
        query = good.vectors_for(self.index, 2, numbers.randrange(1000))
        check(self.index, self.model, query, where)
        if self.reader is not None and numbers.randrange(3) == 0:
            check(*self.reader, query, None)


def _kill_at(number: int) -> None:
    """Lets this process die before its n-th flush, rename or removal."""
    left = [number]

    def dying(name: str) -> Any:
        real = getattr(os, name)

        def call(*arguments: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        return call

    for name in ("fsync", "rename", "replace", "unlink", "open", "chmod", "mkdir"):
        setattr(os, name, dying(name))
