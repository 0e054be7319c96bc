"""PyTorch through TorchDistributor: torch_before.py DIGITS.parquet MODEL.pt"""

import sys

from pyspark.ml.torch.distributor import TorchDistributor
from pyspark.sql import SparkSession


def train(data_path, model_path, epochs):
    import numpy as np
    import pandas
    import torch
    import torch.distributed as dist
    from torch import nn
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dist.init_process_group("gloo")
    data = pandas.read_parquet(data_path)
    rows = TensorDataset(torch.tensor(np.stack(data["pixels"])), torch.tensor(data["label"]))
    sampler = DistributedSampler(rows)
    loader = DataLoader(rows, batch_size=32, sampler=sampler, drop_last=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    loss_of = nn.CrossEntropyLoss()

    for epoch in range(epochs):
        sampler.set_epoch(epoch)
        for pixels, labels in loader:
            optimizer.zero_grad()
            loss = loss_of(model(pixels), labels)
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")
    if dist.get_rank() == 0:
        torch.save(model.module.state_dict(), model_path)
    dist.destroy_process_group()


spark = SparkSession.builder.getOrCreate()
distributor = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)
distributor.run(train, *sys.argv[1:], 5)
