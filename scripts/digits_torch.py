"""The digits search over a small convolutional network in PyTorch: the same commands as digits_search.py, needs torch.

    .venv/bin/pip install torch
    python scripts/digits_torch.py --backend processes --trials 32

The trainable is a function of a trial. It saves the state that a resumed trial needs to train as if never paused: the
network, the optimizer, the state of the random generator. The order of the digits is a function of (seed, epoch).
"""

from __future__ import annotations

import argparse

from asyncsearch import ASHA, Study, choice, lograndint, loguniform, uniform

SPACE = {
    "channels": lograndint(8, 48),
    "hidden": lograndint(32, 256),
    "dropout": uniform(0.0, 0.5),
    "batch_size": choice(32, 64, 128),
    "optimizer": choice("adam", "sgd"),
    "lr": loguniform(3e-4, 1e-2).when(optimizer="adam"),
    "sgd_lr": loguniform(3e-3, 1e-1).when(optimizer="sgd"),
    "momentum": uniform(0.5, 0.95).when(optimizer="sgd"),
    "weight_decay": loguniform(1e-6, 1e-2),
}


def load_digits():
    """Return 1,797 images of 8 x 8 pixels in three parts, always the same: to train, to compare trials, to test."""
    import torch
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    images = torch.tensor(images / 16, dtype=torch.float32).reshape(-1, 1, 8, 8)[order]
    labels = torch.tensor(labels)[order]
    return [(images[part], labels[part]) for part in (slice(0, 1077), slice(1077, 1437), slice(1437, None))]


def build(hp):
    """Return the network and its optimizer."""
    import torch
    from torch import nn

    network = nn.Sequential(
        nn.Conv2d(1, hp["channels"], 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(hp["channels"], 2 * hp["channels"], 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(hp["dropout"]),
        nn.Linear(32 * hp["channels"], hp["hidden"]),
        nn.ReLU(),
        nn.Linear(hp["hidden"], 10),
    )
    decay = hp["weight_decay"]
    if hp["optimizer"] == "sgd":
        return network, torch.optim.SGD(network.parameters(), hp["sgd_lr"], hp["momentum"], weight_decay=decay)
    return network, torch.optim.AdamW(network.parameters(), hp["lr"], weight_decay=decay)


def accuracy(network, images, labels):
    """Return the share of correctly classified images."""
    import torch

    network.eval()
    with torch.inference_mode():
        return (network(images).argmax(1) == labels).float().mean().item()


def train(trial):
    """Train one network; a unit of training is one pass over the digits."""
    import torch

    torch.use_deterministic_algorithms(True)
    torch.manual_seed(trial.seed)
    hp = trial.params
    (images, labels), validation_digits, _ = trial.once(load_digits)
    network, optimizer = build(hp)

    def save(path):
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
        torch.save(state, path)

    def load(path):
        state = torch.load(path, weights_only=True)
        network.load_state_dict(state["network"])
        optimizer.load_state_dict(state["optimizer"])
        torch.set_rng_state(state["rng"])

    for epoch in trial.epochs(save=save, load=load):
        network.train()
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(trial.seed + epoch))
        for batch in order.split(hp["batch_size"]):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimizer.step()
        trial.report(accuracy=accuracy(network, *validation_digits))


def make_study(store="studies/digits-torch", seed=0, backend="auto"):
    """Describe the search without starting or writing anything."""
    scheduler = ASHA(max_resource=27, reduction_factor=3)
    return Study(
        train,
        space=SPACE,
        metric="accuracy",
        mode="max",
        scheduler=scheduler,
        store=store,
        seed=seed,
        backend=backend,
        resume=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=64, help="trials in all (default: 64)")
    parser.add_argument("--parallelism", type=int, help="workers (default: one for each slot of Spark or core)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", default="studies/digits-torch", help="folder or URL that all workers see")
    parser.add_argument("--backend", default="spark", choices=("spark", "processes", "inline", "auto"))
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        raise SystemExit(f"digits_torch.py needs PyTorch ({error}). Install it with: pip install torch") from error

    study = make_study(options.store, options.seed, options.backend)
    study.run(num_trials=options.trials, parallelism=options.parallelism)

    best = study.best_trial
    network, _ = build(best.params)
    with study.checkpoint(best) as path:
        network.load_state_dict(torch.load(path, weights_only=True)["network"])
    test_accuracy = accuracy(network, *load_digits()[2])
    print(f"\nthe best is {best.name}, with {best.value:.4f}: {best.params}")
    print(f"accuracy on digits that no trial saw: {test_accuracy:.4f}; the study is stored in {options.store}")


if __name__ == "__main__":
    main()
