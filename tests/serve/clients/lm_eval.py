"""lm-eval's local-completions: log likelihoods of continuations and generation, by its own classes, tokenized by the server."""

import os
import sys

sys.path.pop(0)
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.api.registry import get_model  # noqa: E402

url, key = sys.argv[1:]
os.environ["OPENAI_API_KEY"] = key
model = get_model("local-completions").create_from_arg_string(
    f"model=smollm2,base_url={url}/v1/completions,tokenizer_backend=remote,num_concurrent=1,max_retries=1,batch_size=2,max_length=2048,auth_token={key}", {}
)


def asks(kind, rows):
    return [Instance(kind, {}, row, i) for i, row in enumerate(rows)]


found = model.loglikelihood(asks("loglikelihood", [("The capital of France is", " Paris"), ("The capital of France is", " banana")]))
assert found[0][0] > found[1][0], found
written = model.generate_until(asks("generate_until", [("Question: say hello.\nAnswer:", {"until": ["\n"], "max_gen_toks": 12})]))
assert isinstance(written[0], str) and "\n" not in written[0]
