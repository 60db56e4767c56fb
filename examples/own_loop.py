"""Your network, your loop: the layer, one line of updates, an index, a search.

python examples/own_loop.py          # a few seconds
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import gradsnap as gs

STEPS, WARMUP = 200, 40


def load() -> tuple[torch.Tensor, torch.Tensor]:
    """Images (1797, 64) in 0 to 1 and labels (1797,)."""
    pixels, digits = load_digits(return_X_y=True)
    return torch.tensor(pixels).float() / 16, torch.tensor(digits)


def main() -> None:
    torch.manual_seed(0)
    images, labels = load()
    mixed = torch.randperm(len(images))
    train, queries, database = mixed[:500], mixed[500:700], mixed[700:]

    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    criterion = gs.TripletLoss(margin=1.0)
    quantizer = gs.ProductQuantizer(dim=32, num_codebooks=4, codebook_size=16)
    snap = gs.GradientSnapping(quantizer, neighbors=150)

    for step in range(STEPS):
        if step == WARMUP:  # codebooks of a network that has learned something
            quantizer.fit(network(images[train]).detach())
        batch = train[torch.randint(len(train), (96,))]
        embeddings = network(images[batch])
        passed = snap(embeddings) if quantizer.fitted else embeddings
        loss = criterion(passed, labels[batch])
        optimizer.zero_grad()
        loss.backward()  # gradients arrive snapped
        optimizer.step()
        if quantizer.fitted:
            quantizer.update(embeddings.detach())  # codebooks follow
        if snap.last is not None and step % 40 == 0:
            conformity = snap.last.conformity.mean()
            print(f"step {step}: loss {loss:.3f}, conformity {conformity:.2f}")

    with torch.no_grad():
        stored, asked = network(images[database]), network(images[queries])
    index = gs.ExhaustiveIndex(quantizer.fit(stored)).add(stored)  # 2 bytes an image
    ids, _ = index.search(asked, k=len(database))
    relevant = labels[database][ids] == labels[queries][:, None]  # (200, 1097)
    found = gs.mean_average_precision(relevant, relevant.sum(dim=1))
    print(f"MAP of {quantizer.bits}-bit codes: {found:.3f}")


if __name__ == "__main__":
    main()
