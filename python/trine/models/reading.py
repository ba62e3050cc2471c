"""Reading a configuration: every key that is there is read by its family, known to say nothing here, or refused by name.

A `Reading` remembers what was asked of it, so that a family need not list its keys: what its row asks for is what it
reads. Needs no JAX.
"""

import difflib
import fnmatch

# Keys that change neither what a model computes once trained, nor its size: by what they are for.
HARMLESS = (
    # of the file, and of the library that wrote it or runs it
    "_*", "architectures", "model_type", "transformers_version", "torch_dtype", "dtype", "auto_map", "tokenizer_class", "name_or_path",
    "model_max_length", "ignore_index", "attn_implementation", "torchscript", "use_cache", "return_dict", "output_*", "is_encoder_decoder",
    "prefix", "unsloth_*", "pruned_heads",
    "gradient_checkpointing", "chunk_size_feed_forward", "finetuning_task", "task_specific_params", "problem_type", "pretraining_tp",
    "use_bfloat16",
    "use_flash_attn", "use_flash_attention", "flash_attn*", "deterministic_flash_attn", "use_mambapy", "use_associative_scan", "num_logits_to_keep",
    "tf_legacy_loss", "cache_implementation", "reference_compile", "repad_logits_with_grad", "rescale_prenorm_residual", "residual_in_fp32",
    # of training
    "*dropout*", "*_drop", "*_pdrop", "*drop_rate*", "drop_path*", "layerdrop", "*_layerdrop", "initializer_*", "init_*", "apply_spec_augment",
    "mask_time_*", "mask_feature_*", "*_loss", "*_loss_*", "aux_loss*", "seq_aux", "input_jitter_noise", "*contrastive*", "*diversity*",
    "num_negatives", "ctc_*", "classifier_proj_size", "use_weighted_layer_sum", "xvector_*", "tdnn_*", "summary_*", "ep_size",
    "num_nextn_predict_layers", "num_mtp_layers", "disable_ngram_loss", "time_step_floor", "time_step_scale", "time_step_init_scheme",
    "initial_context_length", "logit_scale_init_value",
    # of tokens, and of how text is written
    "*_token_id", "*_token_ids", "bos_token*", "eos_token*", "pad_token*", "max_length", "min_length", "max_new_tokens", "do_sample",
    "early_stopping", "num_beams", "num_beam_groups", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
    "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids", "num_return_sequences", "forced_*", "suppress_tokens",
    "begin_suppress_tokens", "remove_invalid_values", "exponential_decay_length_penalty", "generation_config", "median_filter_width",
    # of classes and heads, on which a row has its own say
    "id2label", "label2id", "num_labels", "classifier_*", "num_classes", "head", "semantic_loss_ignore_index", "out_features", "out_indices",
    "stage_names", "auxiliary_*", "use_auxiliary_head", "is_decoder", "add_cross_attention", "cross_attention_hidden_size", "tie_encoder_decoder",
)  # fmt: skip
# Switches that say nothing where they are off, whether the family has them or not.
SWITCHES = {"attention_bias", "mlp_bias", "use_sliding_window", "use_qk_norm", "qkv_bias", "use_bidirectional_attention", "qk_layernorm", "alibi",
            "tie_word_embeddings", "add_adapter", "scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "use_mask_token", "prefix_lm",
            "qk_ln",
            "apply_residual_connection_post_layernorm", "only_cross_attention", "dual_cross_attention"}  # fmt: skip


class ConfigError(ValueError):
    """A configuration that names something the zoo does not have, or lacks what a model needs."""


class FileError(ValueError):
    """A weights file that is not what it should be."""


class Reading:
    """A configuration, or a part of one, that remembers which of its keys were asked for."""

    def __init__(self, values, path="", defaults=None):
        self.values, self.path, self.defaults = values, path, defaults or {}
        self.seen, self.parts = set(), {}

    def get(self, name, default=None):
        self.seen.add(name)
        if name not in self.values:
            return self.defaults.get(name, default)
        value = self.values[name]
        return self.part(name) if isinstance(value, dict) else value

    def part(self, name, defaults=None):
        """A part that is a dictionary itself; an empty one where there is none."""
        self.seen.add(name)
        given = self.values.get(name)
        if name not in self.parts:
            self.parts[name] = Reading(given if isinstance(given, dict) else {}, f"{self.path}{name}.", defaults)
        return self.parts[name]

    def __getitem__(self, name):
        value = self.get(name)
        if value is None:
            raise ConfigError(f"a configuration of {self.kind()} needs \"{self.path}{name}\"")
        return value

    def __contains__(self, name):
        self.seen.add(name)
        return name in self.values

    def __len__(self):
        return len(self.values)

    def items(self):
        self.seen |= set(self.values)
        return self.values.items()

    def values_of(self):
        """All of it as it was given, as read."""
        self.seen |= set(self.values)
        return self.values

    def kind(self):
        return self.values.get("model_type") or self.values.get("_class_name") or "this kind"

    def unread(self):
        """(part, name) of the keys that say something and were not asked for."""
        for name, value in self.values.items():
            if silent(name, value):
                continue
            if name in self.parts:
                yield from self.parts[name].unread()
            elif name not in self.seen:
                yield self, name


def silent(name, value):
    """Whether a key says nothing about what is computed."""
    if value is None or any(fnmatch.fnmatchcase(name, pattern) for pattern in HARMLESS):
        return True
    return name in SWITCHES and not value


def refuse_unread(reading, what):
    """An error that names a key nobody reads, with the nearest that is read."""
    for part, name in reading.unread():
        near = difflib.get_close_matches(name, part.seen, 1, 0.75)
        known = f'; did you mean "{part.path}{near[0]}"?' if near else f"; it is not among the {len(part.seen)} that are read"
        raise ConfigError(f'{what} does not read the key "{part.path}{name}" (it is {short(part.values[name])}){known}')


def only_read(family, config):
    """The keys of a configuration that its family reads: for those who write one with every family's spelling."""
    reading = Reading(config)
    family.settings(reading, strict=False)
    return {name: value for name, value in config.items() if name in reading.seen or silent(name, value)}


def short(value):
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
