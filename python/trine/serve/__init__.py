"""The model server's front: wires, tokenizers, templates, grammars, stored state, routing.

What is batched, sampled, paged or timed is the engine's work (`trine._core.serve`); nothing here computes a token.
"""
