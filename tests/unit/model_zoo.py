"""Models that people train, with all their layers and small inputs. Imports no nbmem.

Each is a stem, a row of segments and a head. Its segments run through `model.through`, so that the
same model trains with checkpoints: `model.through = checkpoint`.
"""

from collections import Counter
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

CALLS = Counter()
"""How often segments ran."""


def run(segment, x):
    """Runs a segment as it is."""
    CALLS["run"] += 1
    return segment(x)


class Staged(nn.Module):
    """A stem, segments, a head."""

    def __init__(self, stem, segments, head):
        super().__init__()
        self.stem, self.segments, self.head = stem, nn.ModuleList(segments), head
        self.through = run

    def forward(self, x):
        x = self.stem(x)
        for segment in self.segments:
            x = self.through(segment, x)
        return self.head(x)


def mlp():
    widths = (256, 192, 192, 128)
    layers = [
        nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.1))
        for a, b in pairwise(widths)
    ]
    stem = nn.Sequential(nn.Flatten(), nn.Linear(784, 256), nn.ReLU())
    return Staged(stem, layers, nn.Linear(128, 10))


def vgg():
    """VGG11's eight convolutions with batch norm, at half its widths."""
    stages, width = [], 3
    for count, wider in ((1, 32), (1, 64), (2, 128), (2, 256), (2, 256)):
        layers = []
        for _ in range(count):
            layers += [nn.Conv2d(width, wider, 3, padding=1), nn.BatchNorm2d(wider)]
            layers += [nn.ReLU(inplace=True)]
            width = wider
        stages.append(nn.Sequential(*layers, nn.MaxPool2d(2)))
    head = nn.Sequential(
        nn.Flatten(), nn.Linear(256, 256), nn.ReLU(True), nn.Dropout(), nn.Linear(256, 10)
    )
    return Staged(stages[0], stages[1:], head)


class Bottleneck(nn.Module):
    """1×1, 3×3, 1×1 around a shortcut."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = 4 * width
        self.conv1 = nn.Conv2d(inputs, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, outputs, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.relu(self.bn2(self.conv2(x)))
        return self.relu(self.bn3(self.conv3(x)) + shortcut)


def resnet(blocks):
    """The residual network with this many bottlenecks in each of its four stages."""
    stem = nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
    )
    stages, inputs = [], 64
    for stage, count in enumerate(blocks):
        width = 64 * 2**stage
        strides = [2 if stage else 1] + [1] * (count - 1)
        row = []
        for stride in strides:
            row.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
        stages.append(nn.Sequential(*row))
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))
    return Staged(stem, stages, head)


def resnet50():
    return resnet((3, 4, 6, 3))


class Attention(nn.Module):
    """Causal attention of several heads over one projection to queries, keys and values."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(*parts, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention, then a feed-forward part, each on what a norm gives and added to its input."""

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.feed(self.norm2(x)))


class Tokens(nn.Module):
    """Embeddings of tokens and of their positions."""

    def __init__(self, vocabulary, length, width):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

    def forward(self, x):
        return self.token(x) + self.position(torch.arange(x.shape[1]))


def gpt(vocabulary, length, width, heads, layers, dropout=0.1):
    """A GPT whose head has the weights of its token embedding."""
    stem = Tokens(vocabulary, length, width)
    project = nn.Linear(width, vocabulary, bias=False)
    project.weight = stem.token.weight
    blocks = [Block(width, heads, dropout) for _ in range(layers)]
    return Staged(stem, blocks, nn.Sequential(nn.LayerNorm(width), project))


def transformer():
    return gpt(vocabulary=500, length=32, width=64, heads=4, layers=3)


class Recurrent(nn.Module):
    """One LSTM layer, and its outputs of all times."""

    def __init__(self, inputs, width):
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


def lstm():
    layers = [Recurrent(48, 96), Recurrent(96, 96)]
    return Staged(nn.Embedding(200, 48), layers, nn.Linear(96, 200))


class SqueezeExcite(nn.Module):
    """Weighs channels by what the whole picture says of them."""

    def __init__(self, width, squeezed):
        super().__init__()
        self.reduce, self.expand = nn.Conv2d(width, squeezed, 1), nn.Conv2d(squeezed, width, 1)

    def forward(self, x):
        weights = functional.silu(self.reduce(x.mean((2, 3), keepdim=True)))
        return x * torch.sigmoid(self.expand(weights))


class MobileBlock(nn.Module):
    """EfficientNet's block: expand, filter each channel, squeeze and excite, project."""

    def __init__(self, inputs, outputs, kernel, stride, expand, drop):
        super().__init__()
        width = inputs * expand
        layers = [] if expand == 1 else _norm_act(nn.Conv2d(inputs, width, 1, bias=False))
        layers += _norm_act(
            nn.Conv2d(width, width, kernel, stride, kernel // 2, groups=width, bias=False)
        )
        layers += [SqueezeExcite(width, max(1, inputs // 4))]
        layers += [nn.Conv2d(width, outputs, 1, bias=False), nn.BatchNorm2d(outputs)]
        self.layers = nn.Sequential(*layers)
        self.adds, self.drop = stride == 1 and inputs == outputs, drop

    def forward(self, x):
        y = self.layers(x)
        return x + self._drop_rows(y) if self.adds else y

    def _drop_rows(self, y):
        """Stochastic depth: the whole block is left out for some of the pictures."""
        if not self.training or self.drop == 0:
            return y
        kept = torch.empty(len(y), 1, 1, 1).bernoulli_(1 - self.drop)
        return y * (kept / (1 - self.drop))


def _norm_act(convolution):
    return [convolution, nn.BatchNorm2d(convolution.out_channels), nn.SiLU(inplace=True)]


def efficientnet_b0():
    #        expand, outputs, blocks, stride, kernel
    rows = ((1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3),
            (6, 112, 3, 1, 5), (6, 192, 4, 2, 5), (6, 320, 1, 1, 3))  # fmt: skip
    stages, inputs, number = [], 32, 0
    for expand, outputs, count, stride, kernel in rows:
        stage = []
        for block in range(count):
            step = stride if block == 0 else 1
            stage.append(MobileBlock(inputs, outputs, kernel, step, expand, 0.2 * number / 16))
            inputs, number = outputs, number + 1
        stages.append(nn.Sequential(*stage))
    stem = nn.Sequential(*_norm_act(nn.Conv2d(3, 32, 3, 2, padding=1, bias=False)))
    last = _norm_act(nn.Conv2d(320, 1280, 1, bias=False))
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(1280, 1000)]
    return Staged(stem, stages, nn.Sequential(*last, *pool))


def picture(side, channels=3, classes=1000):
    return torch.randn(2, channels, side, side), torch.randint(classes, (2,))


def tokens(vocabulary, length):
    return torch.randint(vocabulary, (2, length)), torch.randint(vocabulary, (2, length))


MODELS = {
    "mlp": (mlp, lambda: picture(28, channels=1, classes=10)),
    "vgg": (vgg, lambda: picture(32, classes=10)),
    "resnet50": (resnet50, lambda: picture(32)),
    "transformer": (transformer, lambda: tokens(500, 16)),
    "lstm": (lstm, lambda: tokens(200, 12)),
    "efficientnet_b0": (efficientnet_b0, lambda: picture(32)),
}
"""Name: (makes the model, makes inputs and targets)."""


def loss_of(output, target):
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())
