"""Models written once as JAX functions of their configuration: parameters are plain dictionaries of arrays.

`decoder` (LLaMA and GPT-2 kinds), `encoder` (BERT kinds), `resnet`, `unet`; `training` has the loss and AdamW.
Importing this package needs JAX; the rest of Trine does not.
"""
