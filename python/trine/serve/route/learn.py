"""The classifier: a logistic head over the small model's embedding of a prompt, fitted to a log's shadowed rows.

A prompt needs the large model where the small one's answer was worse by more than a margin.
"""

import json

import numpy as np

from trine.serve.route.report import qualities, rows_of

MARGIN = 0.2
STEPS, RATE, DECAY = 400, 0.5, 1e-3


class Classifier:
    def __init__(self, weights, bias, mean, scale):
        self.weights, self.bias, self.mean, self.scale = (np.asarray(v, float) for v in (weights, bias, mean, scale))

    def need(self, embedding):
        x = (np.asarray(embedding, float) - self.mean) / self.scale
        return float(1 / (1 + np.exp(-np.clip(x @ self.weights + self.bias, -30, 30))))

    @classmethod
    def load(cls, path):
        with open(path) as file:
            row = json.load(file)
        try:
            return cls(row["weights"], row["bias"], row["mean"], row["scale"])
        except (KeyError, TypeError, ValueError):
            raise ValueError(f"{path}: not what `trine route train` writes") from None

    def save(self, path):
        with open(path, "w") as file:
            json.dump({"version": 1, "weights": self.weights.tolist(), "bias": float(self.bias), "mean": self.mean.tolist(), "scale": self.scale.tolist()}, file)


def examples(path):
    """(prompts, labels) of rows that both sides answered."""
    prompts, labels = [], []
    for row in rows_of(path):
        if isinstance(row.get("local"), dict) and isinstance(row.get("remote"), dict) and row.get("prompt"):
            small, large = qualities(row)
            prompts.append(row["prompt"])
            labels.append(large - small > MARGIN)
    return prompts, np.array(labels, float)


def fit(vectors, labels):
    vectors = np.asarray(vectors, float)
    mean, scale = vectors.mean(0), vectors.std(0) + 1e-6
    x, weights, bias = (vectors - mean) / scale, np.zeros(vectors.shape[1]), 0.0
    for _ in range(STEPS):
        error = 1 / (1 + np.exp(-np.clip(x @ weights + bias, -30, 30))) - labels
        weights -= RATE * (x.T @ error / len(x) + DECAY * weights)
        bias -= RATE * error.mean()
    return Classifier(weights, bias, mean, scale)


def left_out(vectors, labels, folds=5):
    """Accuracy on examples it was not fitted to, and of always guessing the commoner label."""
    vectors, right = np.asarray(vectors, float), 0
    order = np.random.default_rng(0).permutation(len(labels))
    for fold in range(folds):
        test = order[fold::folds]
        train = np.setdiff1d(order, test)
        if len(train) and len(test):
            made = fit(vectors[train], labels[train])
            right += sum((made.need(v) > 0.5) == bool(want) for v, want in zip(vectors[test], labels[test], strict=True))
    return right / len(labels), max(labels.mean(), 1 - labels.mean())
