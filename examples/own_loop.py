"""NCL in a loop of your own, in plain PyTorch: `own_loop.py [STEPS]`; prints what the dimensions are like."""

import sys

import torch
from torch import nn

from nonneg_training import structure
from nonneg_training.data import open_data
from nonneg_training.encoder.encoder_module import rep_relu
from nonneg_training.losses import infonce

images = open_data("digits")
x = torch.from_numpy(images.array).permute(0, 3, 1, 2).float() / 255
network = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(64), nn.BatchNorm1d(64))
optimiser = torch.optim.AdamW(network.parameters(), lr=3e-3)
for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 200):
    batch = x[torch.randint(len(x), (128,))]
    z1, z2 = (rep_relu(network(batch + 0.2 * torch.randn_like(batch))) for _ in range(2))
    loss = infonce(z1, z2, temperature=0.2)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

report = structure(network.eval()(x).relu().detach().numpy(), images.labels)
print(f"loss {loss.item():.2f}, {report.measured.nnz:.0f} of 64 dimensions active a vector")
for floor in ("measured", "shuffled", "rotated"):
    print(f"{floor}: consistency {getattr(report, floor).consistency:.3f}")
