"""A loss and a miner of pytorch-metric-learning behind the snapping layer.

pip install 'gradsnap[metric-learning]'
python examples/with_metric_learning.py
"""

import torch
from pytorch_metric_learning import distances, losses, miners
from sklearn.datasets import load_digits
from torch import nn

import gradsnap as gs


def main() -> None:
    torch.manual_seed(0)
    pixels, digits = load_digits(return_X_y=True)
    images, labels = torch.tensor(pixels).float() / 16, torch.tensor(digits)

    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 32))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.02, momentum=0.9)
    # Codes stand for embeddings as they are, so their lengths must stay as they are.
    distance = distances.LpDistance(normalize_embeddings=False)
    criterion = losses.TripletMarginLoss(margin=1.0, distance=distance)
    miner = miners.TripletMarginMiner(1.0, "semihard", distance=distance)

    quantizer = gs.ProductQuantizer(dim=32, num_codebooks=4, codebook_size=16)
    quantizer.fit(network(images).detach())
    snap = gs.GradientSnapping(quantizer, neighbors=150)

    for step in range(200):
        batch = torch.randint(1000, (96,))  # the first thousand images train
        embeddings = network(images[batch])
        mined = miner(embeddings.detach(), labels[batch])
        loss = criterion(snap(embeddings), labels[batch], mined)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        quantizer.update(embeddings.detach())
        if step % 50 == 0:
            print(f"step {step}: loss {loss:.3f}, {len(mined[0])} triplets")

    with torch.no_grad():
        rest = network(images[1000:])
    codes = quantizer.fit(rest).encode(rest)
    print(f"{len(codes)} codes of {quantizer.bits // 8} bytes")


if __name__ == "__main__":
    main()
