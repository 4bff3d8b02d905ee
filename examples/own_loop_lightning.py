"""NCL as a LightningModule (`pip install pytorch-lightning`): `own_loop_lightning.py [STEPS]`."""

import sys

import pytorch_lightning as lightning
import torch
from torch import nn
from torch.utils.data import DataLoader

from nonneg_training.data import open_data
from nonneg_training.encoder.encoder_module import rep_relu
from nonneg_training.losses import infonce


class NCL(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.network = nn.Sequential(nn.Conv2d(3, 64, 3, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(64))

    def training_step(self, batch, _):
        z1, z2 = (rep_relu(self.network(batch + 0.2 * torch.randn_like(batch))) for _ in range(2))
        loss = infonce(z1, z2, temperature=0.2)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-3)


x = torch.from_numpy(open_data("digits").array).permute(0, 3, 1, 2).float() / 255
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 200
trainer = lightning.Trainer(max_steps=steps, accelerator="cpu", logger=False, enable_checkpointing=False)
trainer.fit(NCL(), DataLoader(x, 128, shuffle=True))
print(f"{trainer.global_step} steps, loss {trainer.callback_metrics['loss']:.2f}")
