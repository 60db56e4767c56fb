"""AlexNet as the paper uses it: conv1 to conv5, fc6, fc7, and the embedding layer."""

from torch import Tensor, nn


class AlexNet(nn.Module):
    """AlexNet with an inner product layer ``feat`` on fc7 (the paper's network).

    ``features`` and ``classifier`` are laid out and named as in torchvision, so that
    its checkpoints' tensors fit.

    Args:
        dim: length of the embedding; 192 in the paper.
    """

    def __init__(self, dim: int = 192) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
        )
        self.feat = nn.Linear(4096, dim)

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings (n, dim) of images (n, 3, height, width), at least 64 pixels."""
        maps = self.avgpool(self.features(images))  # (n, 256, 6, 6)
        embeddings: Tensor = self.feat(self.classifier(maps.flatten(1)))
        return embeddings
