"""32 bits as 8 x 16 by fast-scan beside 4 x 256 by FAISS's IndexPQ, with both MAPs."""

import functools
from collections.abc import Iterator

import torch

import gradsnap as gs
from benchmarks import databases
from benchmarks.databases import MILLION, rows_of, threads
from benchmarks.report import Bar, Row, noted, say
from benchmarks.timing import best_interleaved
from benchmarks.vectors import Setting
from examples import digits
from gradsnap.index import ExhaustiveIndex

K, BATCH = 100, 64
BAR = Bar("≥", 5.0)
SEEDS = 3


def run(setting: Setting) -> Iterator[Row]:
    """Fast-scan with exact scores, so that results are those of a plain scan."""
    rows = rows_of(setting, MILLION)
    wide, narrow = databases.fitted(4, 256), databases.fitted(8, 16)
    theirs = databases.faiss_pq(wide, databases.many_codes(wide, rows))
    ours = ExhaustiveIndex(narrow).add_codes(databases.many_codes(narrow, rows))
    plain = ExhaustiveIndex(narrow).add_codes(databases.many_codes(narrow, rows))
    plain._fast = None
    queries = databases.queries()[:BATCH]
    equal = torch.equal(ours.search(queries, K).ids, plain.search(queries, K).ids)
    for used in (1, 2):
        say(f"fast scan: {rows:,} codes, {used} threads …")
        with threads(used):
            calls = {
                "ours": lambda: ours.search(queries, K),
                "theirs": lambda: theirs.search(queries.numpy(), K),
            }
            best = best_interleaved(calls, setting.repeats(5))
        speeds = BATCH / best["ours"], BATCH / best["theirs"]
        row = Row(
            f"{rows:,} x 32 bits, {BATCH} queries, {used} threads",
            *speeds,
            "queries/s",
            speeds[0] / speeds[1],
            BAR,
            fair=equal,
        )
        yield noted(row, f"{'equal to' if equal else 'NOT'} a plain scan of the codes")
    yield _ranking(setting)


def _ranking(setting: Setting) -> Row:
    seeds = range(setting.repeats(SEEDS))
    say("fast scan: training digits for each layout …")
    narrow, wide = (
        sum(_trained_map(setting, *layout, seed) for seed in seeds) / len(seeds)
        for layout in ((8, 16), (4, 256))
    )
    what = "MAP of digits, network and codebooks trained for 8 x 16 / 4 x 256"
    note = f"32 bits each, mean of {len(seeds)} seeds, one learning rate for both"
    return Row(what, narrow, wide, "", narrow / wide, note=note)


@functools.cache
def _trained_map(setting: Setting, books: int, words: int, seed: int) -> float:
    """MAP of codes from a network trained with snapping for one layout."""
    data, queries, stored = digits.splits(seed)
    torch.manual_seed(seed)
    network = digits.small_network(seed)
    dim = network(data.images[:1]).shape[1]
    quantizer = gs.ProductQuantizer(dim, books, words)
    layer, criterion = gs.GradientSnapping(quantizer), gs.TripletLoss()
    optimizer = torch.optim.Adam(network.parameters(), lr=digits.RATES[0])
    steps = 20 if setting.quick else 300
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        rows = torch.randint(len(data.labels), (128,), generator=generator)
        embeddings = network(data.images[rows])
        if step == steps // 6:
            quantizer.fit(network(data.images).detach())
        snapped = layer(embeddings) if quantizer.fitted else embeddings
        loss = criterion(snapped, data.labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if quantizer.fitted:
            quantizer.update(embeddings.detach())
    network.eval()
    with torch.no_grad():
        kept, asked = network(stored.images), network(queries.images)
    quantizer.fit(kept)
    index = ExhaustiveIndex(quantizer).add(kept)
    ids = index.search(asked, len(kept)).ids
    relevant = stored.labels[ids] == queries.labels[:, None]
    return float(gs.mean_average_precision(relevant, relevant.sum(dim=1)))
