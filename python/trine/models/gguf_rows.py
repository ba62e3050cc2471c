"""What GGUF files call things: their architectures as our families, their keys as config.json's, their tensors as our parameters.

A family that differs has a row in OTHER_KEYS, OTHER_NAMES, or a function in MADE. Needs no JAX.
"""

from trine.models.reading import FileError

# Their architecture: our family.
FAMILIES = {"llama": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "gemma": "gemma", "phi3": "phi3", "phi2": "phi",
            "gpt2": "gpt2", "gptneox": "gpt_neox", "falcon": "falcon", "starcoder2": "starcoder2", "olmo2": "olmo2",
            "qwen2moe": "qwen2_moe", "qwen3moe": "qwen3_moe", "gemma2": "gemma2", "gemma3": "gemma3_text", "granite": "granite",
            "smollm3": "smollm3", "arcee": "arcee", "gpt-oss": "gpt_oss", "deepseek2": "deepseek_v2", "phimoe": "phimoe", "command-r": "cohere",
            "cohere2": "cohere2", "chatglm": "glm", "glm4": "glm4", "hunyuan-dense": "hunyuan_v1_dense", "hunyuan-moe": "hunyuan_v1_moe",
            "lfm2": "lfm2", "mamba": "mamba", "mamba2": "mamba2", "falcon-h1": "falcon_h1", "bloom": "bloom", "mpt": "mpt",
            "olmo": "olmo", "exaone4": "exaone4", "ernie4_5": "ernie4_5", "seed_oss": "seed_oss", "jais2": "jais2", "nemotron": "nemotron",
            "apertus": "apertus", "stablelm": "stablelm", "minicpm3": "minicpm3", "starcoder": "gpt_bigcode", "olmoe": "olmoe",
            "granitemoe": "granitemoe", "granitehybrid": "granitemoehybrid", "glm4moe": "glm4_moe", "dots1": "dots1",
            "ernie4_5-moe": "ernie4_5_moe", "lfm2moe": "lfm2_moe", "minimax-m2": "minimax_m2"}  # fmt: skip
PAIRED = ("llama", "granite", "smollm3", "arcee", "olmo", "granitemoe", "granitehybrid")  # whose converter puts the rotary dims of a pair side by side
LATENT = ("deepseek_v2", "deepseek_v3", "youtu", "minicpm3")  # their rotary dims are not a share of a head
SIGMOID = 2  # of expert_gating_func
LAYERS_LIMIT = 4096
# Their key: ours, several where families spell it differently.
KEYS = {
    "embedding_length": ["hidden_size"], "block_count": ["num_hidden_layers"],
    "feed_forward_length": ["intermediate_size", "n_inner", "ffn_hidden_size"],
    "attention.head_count": ["num_attention_heads"], "attention.head_count_kv": ["num_key_value_heads", "num_kv_heads"],
    "context_length": ["max_position_embeddings", "n_positions"], "attention.layer_norm_rms_epsilon": ["rms_norm_eps"],
    "attention.layer_norm_epsilon": ["layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"], "rope.freq_base": ["rope_theta"],
    "attention.key_length": ["head_dim"], "expert_count": ["num_local_experts"], "expert_used_count": ["num_experts_per_tok"],
    "attention.sliding_window": ["sliding_window"], "vocab_size": ["vocab_size"], "expert_feed_forward_length": ["moe_intermediate_size"],
    "expert_shared_feed_forward_length": ["shared_expert_intermediate_size"], "attn_logit_softcapping": ["attn_logit_softcapping"],
    "final_logit_softcapping": ["final_logit_softcapping"], "attention.scale": ["attention_multiplier"], "embedding_scale": ["embedding_multiplier"],
    "residual_scale": ["residual_multiplier"], "logit_scale": ["logits_scaling"], "use_parallel_residual": ["use_parallel_residual"],
}  # fmt: skip
STATE_KEYS = {"ssm.conv_kernel": ["conv_kernel"], "ssm.inner_size": ["intermediate_size"], "ssm.state_size": ["state_size"],
              "attention.layer_norm_rms_epsilon": ["layer_norm_epsilon"]}  # fmt: skip
COHERE_KEYS = {"logit_scale": ["logit_scale"]}
DEEPSEEK_KEYS = {
    "attention.q_lora_rank": ["q_lora_rank"], "attention.kv_lora_rank": ["kv_lora_rank"], "rope.dimension_count": ["qk_rope_head_dim"],
    "leading_dense_block_count": ["first_k_dense_replace"], "expert_shared_count": ["n_shared_experts"],
    "expert_weights_scale": ["routed_scaling_factor"], "expert_weights_norm": ["norm_topk_prob"], "expert_group_count": ["n_group"],
    "expert_group_used_count": ["topk_group"],
}  # fmt: skip
LFM_KEYS = {"shortconv.l_cache": ["conv_L_cache"], "attention.layer_norm_rms_epsilon": ["norm_eps"]}
EXPERT_KEYS = {name: ours for name, ours in DEEPSEEK_KEYS.items() if name.startswith(("expert", "leading"))} | {"expert_count": ["n_routed_experts"]}
OTHER_KEYS = {
    "olmo": {"attention.clamp_kqv": ["clip_qkv"]}, "nemotron": {"attention.layer_norm_epsilon": ["norm_eps"]},
    "youtu": DEEPSEEK_KEYS, "minicpm3": DEEPSEEK_KEYS, "glm4_moe": EXPERT_KEYS, "dots1": EXPERT_KEYS,
    "granitemoeshared": {"expert_shared_feed_forward_length": ["shared_intermediate_size"]},
    "granitemoehybrid": {"ssm.conv_kernel": ["mamba_d_conv"], "ssm.state_size": ["mamba_d_state"], "ssm.time_step_rank": ["mamba_n_heads"],
                         "ssm.group_count": ["mamba_n_groups"], "expert_shared_feed_forward_length": ["shared_intermediate_size"]},
    "ernie4_5_moe": {"expert_count": ["moe_num_experts"], "expert_used_count": ["moe_k"], "expert_shared_count": ["moe_num_shared_experts"],
                     "leading_dense_block_count": ["moe_layer_start_index"], "interleave_moe_layer_step": ["moe_layer_interval"]},
    "lfm2_moe": LFM_KEYS | {"expert_count": ["num_experts"], "leading_dense_block_count": ["num_dense_layers"],
                            "expert_weights_scale": ["routed_scaling_factor"]},
    "minimax_m2": {"rope.dimension_count": ["rotary_dim"]},
    "cohere": COHERE_KEYS, "cohere2": COHERE_KEYS, "deepseek_v2": DEEPSEEK_KEYS, "deepseek_v3": DEEPSEEK_KEYS,
    "mamba": STATE_KEYS | {"ssm.time_step_rank": ["time_step_rank"]}, "falcon_mamba": STATE_KEYS | {"ssm.time_step_rank": ["time_step_rank"]},
    "mamba2": STATE_KEYS | {"ssm.time_step_rank": ["num_heads"], "ssm.group_count": ["n_groups"]},
    "falcon_h1": {"ssm.conv_kernel": ["mamba_d_conv"], "ssm.inner_size": ["mamba_d_ssm"], "ssm.state_size": ["mamba_d_state"],
                  "ssm.time_step_rank": ["mamba_n_heads"], "ssm.group_count": ["mamba_n_groups"]},
    "lfm2": LFM_KEYS,
    "hunyuan_v1_moe": {"expert_count": ["num_experts"], "expert_used_count": ["moe_topk"]},
    "mpt": {"embedding_length": ["d_model"], "block_count": ["n_layers"], "attention.head_count": ["n_heads"], "context_length": ["max_seq_len"]},
}  # fmt: skip
# Settings that show in whether a tensor is there.
PRESENT = {
    "attention_bias": "blk.0.attn_q.bias", "use_qk_norm": "blk.0.attn_q_norm.weight", "lm_head_bias": "output.bias", "use_bias": "blk.0.ssm_in.bias",
    "use_conv_bias": "blk.0.ssm_conv1d.bias", "mamba_proj_bias": "blk.0.ssm_in.bias", "mamba_conv_bias": "blk.0.ssm_conv1d.bias",
    "mamba_rms_norm": "blk.0.ssm_norm.weight", "projectors_bias": "blk.0.ssm_out.bias", "use_qkv_bias": "blk.0.attn_q.bias",
    "attention_out_bias": "blk.0.attn_output.bias", "mlp_bias": "blk.0.ffn_up.bias", "qk_layernorm": "blk.0.attn_q_norm.weight",
}  # fmt: skip
PRESENT_OF = ("gpt_oss", "phimoe", "cohere", "cohere2", "glm", "glm4", "mamba", "falcon_mamba", "mamba2", "falcon_h1", "hunyuan_v1_dense",
           "hunyuan_v1_moe", "seed_oss", "jais2", "stablelm", "glm4_moe", "dots1", "nemotron")  # fmt: skip
NAMES = {
    "tokens": "token_embd", "positions": "position_embd", "norm": "output_norm", "head": "output",
    "layers.norm1": "blk.{}.attn_norm", "layers.norm2": "blk.{}.ffn_norm", "layers.o": "blk.{}.attn_output",
    "layers.q": "blk.{}.attn_q|blk.{}.attn_qkv#q", "layers.k": "blk.{}.attn_k|blk.{}.attn_qkv#k",
    "layers.v": "blk.{}.attn_v|blk.{}.attn_qkv#v", "layers.q_norm": "blk.{}.attn_q_norm", "layers.k_norm": "blk.{}.attn_k_norm",
    "layers.gate": "blk.{}.ffn_gate", "layers.up": "blk.{}.ffn_up", "layers.down": "blk.{}.ffn_down",
}  # fmt: skip
EXPERTS = {"layers.router": "blk.{}.ffn_gate_inp", "layers.gate": "blk.{}.ffn_gate_exps|blk.{}.ffn_gate",
           "layers.up": "blk.{}.ffn_up_exps|blk.{}.ffn_up", "layers.down": "blk.{}.ffn_down_exps|blk.{}.ffn_down"}  # fmt: skip
CORRECTED = EXPERTS | {"layers.router_correction": "=blk.{}.exp_probs_b.bias"}
NORMED = {"layers.norm1": "blk.{}.post_attention_norm", "layers.norm2": "blk.{}.post_ffw_norm"}
LFM = {"norm": "token_embd_norm|output_norm", "layers.o": "blk.{}.attn_output|blk.{}.shortconv.out_proj", "layers.conv": "blk.{}.shortconv.conv",
       **{f"layers.{n}": f"blk.{{}}.shortconv.in_proj#{i}/third" for i, n in enumerate(("before", "after", "x"))}}  # fmt: skip
SHARED = {f"layers.shared.{n}": f"blk.{{}}.ffn_{n}_shexp" for n in ("gate", "up", "down")}
SANDWICH = {"layers.norm1_after": "blk.{}.post_attention_norm", "layers.norm2_after": "blk.{}.post_ffw_norm"}
FUSED_MLP = {"layers.gate": "blk.{}.ffn_up#gate", "layers.up": "blk.{}.ffn_up#up"}
DEEPSEEK = CORRECTED | SHARED | {
    "layers.q": "blk.{}.attn_q_b|blk.{}.attn_q", "layers.q_down": "blk.{}.attn_q_a", "layers.q_norm": "blk.{}.attn_q_a_norm",
    "layers.kv_down": "blk.{}.attn_kv_a_mqa", "layers.kv_norm": "blk.{}.attn_kv_a_norm",
    "layers.k_up": "~blk.{}.attn_k_b#k/heads|blk.{}.attn_kv_b#k/latent", "layers.v_up": "blk.{}.attn_v_b#v/heads|blk.{}.attn_kv_b#v/latent",
}  # fmt: skip
MAMBA = {
    "layers.x": "blk.{}.ssm_in#gate", "layers.z": "blk.{}.ssm_in#up", "layers.conv": "blk.{}.ssm_conv1d", "layers.inner": "blk.{}.ssm_x",
    "layers.steps": "blk.{}.ssm_dt", "layers.rates": "=blk.{}.ssm_a", "layers.d": "=blk.{}.ssm_d", "layers.o": "blk.{}.ssm_out",
}  # fmt: skip


def state_names(inside=""):
    """Of kind 2, whose projections lie in one tensor and whose convolutions in another."""
    names = {n: f"blk.{{}}.ssm_in#{n}/state" for n in ("z", "x", "into", "out", "steps")}
    names |= {f"conv{end}": f"blk.{{}}.ssm_conv1d#{part}/taps" for end, part in (("", "x"), ("_into", "into"), ("_out", "out"))}
    names |= {"rates": "=blk.{}.ssm_a", "d": "=blk.{}.ssm_d", "step_bias": "=blk.{}.ssm_dt.bias", "o": "blk.{}.ssm_out", "norm": "blk.{}.ssm_norm"}
    return {f"layers.{inside}{name}": theirs for name, theirs in names.items()}


OTHER_NAMES = {
    "mixtral": EXPERTS, "qwen3_moe": EXPERTS, "phimoe": EXPERTS, "gemma2": SANDWICH, "gemma3_text": SANDWICH,
    "qwen2_moe": EXPERTS | SHARED | {"layers.shared_gate": "blk.{}.ffn_gate_inp_shexp"}, "hunyuan_v1_moe": EXPERTS | SHARED,
    "phi3": FUSED_MLP, "glm": FUSED_MLP, "glm4": FUSED_MLP | SANDWICH,
    "olmo2": NORMED,
    "falcon": {"layers.norm1": "blk.{}.attn_norm_2|blk.{}.attn_norm", "layers.norm2": "blk.{}.attn_norm"},
    "gpt_oss": EXPERTS | {"layers.sinks": "blk.{}.attn_sinks", "layers.norm2": "blk.{}.post_attention_norm"},
    "deepseek_v2": DEEPSEEK, "deepseek_v3": DEEPSEEK, "bloom": {"embed_norm": "token_embd_norm"},
    "mamba": MAMBA, "falcon_mamba": MAMBA, "mamba2": state_names(), "falcon_h1": state_names("state.") | {"layers.norm2": "=blk.{}.ffn_norm|blk.{}.ffn_norm"},
    "lfm2": LFM, "lfm2_moe": LFM | CORRECTED, "olmo3": NORMED, "exaone4": NORMED, "youtu": DEEPSEEK, "minicpm3": DEEPSEEK,
    "apertus": {"layers.bend_up": "=blk.{}.xielu.alpha_p", "layers.bend_down": "=blk.{}.xielu.alpha_n"},
    "seed_oss": {"layers.norm2": "blk.{}.post_attention_norm"}, "olmoe": EXPERTS, "granitemoe": EXPERTS, "granitemoeshared": EXPERTS | SHARED,
    "minimax_m2": CORRECTED, "dots1": CORRECTED | SHARED,
    "granitemoehybrid": state_names() | EXPERTS | SHARED | {"layers.o": "blk.{}.attn_output|blk.{}.ssm_out"},
    "glm4_moe": CORRECTED | SHARED | {"layers.norm2": "blk.{}.post_attention_norm"}, "ernie4_5_moe": CORRECTED | SHARED,
}  # fmt: skip


def family_of(file, family):
    """Of families that share an architecture, the one whose file it is."""
    if family == "llama" and file.of("expert_count"):
        return "mixtral"
    if family == "mamba" and file.of("ssm.dt_b_c_rms"):
        return "falcon_mamba"
    if family == "deepseek_v2" and not file.of("expert_count"):
        return "youtu"
    if family == "deepseek_v2" and file.of("expert_gating_func") == SIGMOID:
        return "deepseek_v3"
    if family == "olmo2" and file.of("attention.sliding_window"):
        return "olmo3"
    if family == "granitemoe" and file.of("expert_shared_feed_forward_length"):
        return "granitemoeshared"
    return family


def config_of(file):
    """A configuration with every family's spelling; what a family does not read is left out by the caller."""
    config = {"model_type": file.family, "tie_word_embeddings": "output.weight" not in file}
    for theirs, ours in (KEYS | OTHER_KEYS.get(file.family, {})).items():
        if file.of(theirs) is not None:
            config |= dict.fromkeys(ours, file.of(theirs))
    if "token_embd.weight" in file:
        config["vocab_size"] = file.shape("token_embd.weight")[0]
    if file.family in PRESENT_OF:
        config |= {ours: tensor in file for ours, tensor in PRESENT.items()}
    heads, width = file.number("attention.head_count"), file.number("embedding_length")
    if (rotated := file.number("rope.dimension_count")) and file.family not in LATENT:
        of_head = file.number("attention.key_length") or (width // heads if width and heads else 0)
        if not of_head:
            raise FileError(f"{file.path}: rope.dimension_count is {rotated}, and no head's size is given")
        config["partial_rotary_factor"] = rotated / of_head
    config |= rope(file, config)
    return MADE.get(file.family, lambda file, config: config)(file, config)


def rope(file, config):
    """Stretched rotary positions: given as a kind and a factor, or as a factor for each frequency."""
    def factors(name):
        return [float(f) for f in file[name].reshape(-1)]

    if "rope_freqs.weight" in file:
        both = factors("rope_freqs.weight")
        return {"rope_scaling": {"rope_type": "longrope", "short_factor": both, "long_factor": both, "attention_factor": 1.0}}
    original = file.number("rope.scaling.original_context_length") or config.get("max_position_embeddings")
    if "rope_factors_long.weight" in file and "rope_factors_short.weight" in file:
        return {"rope_scaling": {"rope_type": "longrope", "short_factor": factors("rope_factors_short.weight"), "long_factor":
                factors("rope_factors_long.weight"), "original_max_position_embeddings": original,
                "attention_factor": file.number("rope.scaling.attn_factor")}}  # fmt: skip
    if (kind := file.of("rope.scaling.type")) not in ("linear", "yarn"):
        return {}
    made = {"rope_type": kind, "factor": file.number("rope.scaling.factor") or 1.0, "original_max_position_embeddings": original}
    for theirs, ours in (("yarn_beta_fast", "beta_fast"), ("yarn_beta_slow", "beta_slow")):
        if kind == "yarn" and (given := file.number(f"rope.scaling.{theirs}")) is not None:
            made[ours] = given
    return {"rope_scaling": made}


def gemma(file, config):
    """What the scores are divided by the root of: a head's size, but of the largest model, which files do not say."""
    largest = {"gemma2": 46, "gemma3_text": 62}[file.family]
    heads, width = file.number("attention.head_count"), file.number("embedding_length")
    if not heads or not width:
        raise FileError(f"{file.path}: attention.head_count and embedding_length are needed")
    of_head = file.number("attention.key_length") or width // heads
    return config | {"query_pre_attn_scalar": width // heads if file.number("block_count") == largest else of_head}


def gpt_oss(file, config):
    """Its stretched positions are not cut to whole dims, which files do not say."""
    return config | {"rope_scaling": config["rope_scaling"] | {"truncate": False}} if "rope_scaling" in config else config


def deepseek(file, config):
    """Sizes of a head as they are before keys are brought into the narrow space; files of all generations."""
    whole = file.number("attention.key_length_mla") or file.number("attention.key_length") or 0
    values = file.number("attention.value_length_mla") or file.number("attention.value_length")
    config |= {"qk_nope_head_dim": whole - (file.number("rope.dimension_count") or 0), "v_head_dim": values}
    if "blk.0.attn_kv_b.weight" not in file and not file.number("attention.key_length_mla"):
        raise FileError(f"{file.path}: attention.key_length_mla is missing")
    if file.family == "deepseek_v2":  # the first generation's experts are weighed by softmax, by groups in the large model
        config |= {"topk_method": "group_limited_greedy" if (file.number("expert_group_count") or 0) > 1 else "greedy"}
    if sharper := file.number("rope.scaling.yarn_log_multiplier"):  # a tenth of what config.json says of scores; that of angles is the same
        if "rope_scaling" in config:
            config["rope_scaling"] |= {"mscale": 10 * sharper, "mscale_all_dim": 10 * sharper}
    return config


def listed_keys(file):
    """Heads of keys of each layer: none where it does not attend."""
    keys = file.of("attention.head_count_kv")
    if not isinstance(keys, list) or not keys or not all(isinstance(k, int) for k in keys):
        raise FileError(f"{file.path}: attention.head_count_kv is no list of a number for each layer")
    return keys


def lfm2(file, config):
    keys = listed_keys(file)
    return config | {"num_key_value_heads": max(keys), "layer_types": ["full_attention" if k else "conv" for k in keys],
                     "block_auto_adjust_ff_dim": False, "conv_bias": any(f"blk.{i}.shortconv.conv.bias" in file for i in range(len(keys)))}  # fmt: skip


def mpt(file, config):
    width, inner, heads = file.number("embedding_length") or 0, file.number("feed_forward_length") or 0, file.number("attention.head_count")
    if (keys := file.number("attention.head_count_kv")) and keys != heads:
        raise FileError(f"{file.path}: {keys} heads of keys and {heads} of queries; the zoo's mpt has as many of both")
    return config | {"expansion_ratio": inner / width if width else 4, "layer_norm_epsilon": file.number("attention.layer_norm_epsilon") or 1e-5,
                     "attn_config": {"alibi": bool(file.number("attention.max_alibi_bias")), "clip_qkv": file.number("attention.clamp_kqv")}}  # fmt: skip


def windows(file, config):
    """Which layers see a window: a list, else one of so many does not."""
    given, layers = file.of("attention.sliding_window_pattern"), file.number("block_count") or 0
    if not file.of("attention.sliding_window"):
        return config
    each = given if isinstance(given, int) and not isinstance(given, bool) and given > 0 else 4
    seen = given if isinstance(given, list) else [(i + 1) % each != 0 for i in range(min(int(layers), LAYERS_LIMIT))]
    return config | {"layer_types": ["sliding_attention" if near else "full_attention" for near in seen]}


def head_dim(file, config):
    """Of families whose own default is not width over heads."""
    heads, width = file.number("attention.head_count"), file.number("embedding_length")
    return config | ({"head_dim": width // heads} if heads and width and not file.number("attention.key_length") else {})


def ernie(file, config):
    return head_dim(file, config) | {"use_bias": "blk.0.attn_q.bias" in file}


def minicpm3(file, config):
    """Factors that llama.cpp has in its code, and heads' sizes."""
    heads, width = file.number("attention.head_count"), file.number("embedding_length")
    if not heads or not width:
        raise FileError(f"{file.path}: attention.head_count and embedding_length are needed")
    return config | {"scale_emb": 12, "scale_depth": 1.4, "dim_model_base": 256, "v_head_dim": file.number("attention.value_length") or width // heads,
                     "qk_nope_head_dim": (file.number("attention.key_length") or 0) - (file.number("rope.dimension_count") or 0)}  # fmt: skip


def granite_hybrid(file, config):
    keys, width = listed_keys(file), file.number("embedding_length") or 1
    states = [f"blk.{i}." for i, k in enumerate(keys) if not k]
    made = {"num_key_value_heads": max(keys), "layer_types": ["attention" if k else "mamba" for k in keys],
            "mamba_expand": (file.number("ssm.inner_size") or 0) / width, "num_local_experts": file.number("expert_count") or 0,
            "mamba_conv_bias": any(f"{at}ssm_conv1d.bias" in file for at in states), "mamba_proj_bias": any(f"{at}ssm_in.bias" in file for at in states),
            "position_embedding_type": "rope" if file.of("rope.scaling.finetuned") or not states else "nope"}  # fmt: skip
    if not made["num_local_experts"] and "blk.0.ffn_up.weight" in file:
        made["shared_intermediate_size"] = file.shape("blk.0.ffn_up.weight")[0]
    return config | made


def glm4_moe(file, config):
    """Layers that guess the token after the next are counted with the others."""
    layers, guessing = file.number("block_count") or 0, file.number("nextn_predict_layers") or 0
    return config | {"num_hidden_layers": layers - guessing, "first_k_dense_replace": file.number("leading_dense_block_count") or 0}


MADE = {
    "olmo3": windows, "exaone4": windows, "ernie4_5": ernie, "seed_oss": head_dim, "minicpm3": minicpm3, "youtu": deepseek,
    "granitemoehybrid": granite_hybrid, "glm4_moe": glm4_moe, "minimax_m2": head_dim,
    "ernie4_5_moe": lambda file, config: ernie(file, config) | {"moe_layer_end_index": -1},
    "apertus": lambda file, config: config | {"hidden_act": "xielu"}, "lfm2_moe": lfm2,
    "gpt_bigcode": lambda file, config: config | {"multi_query": file.number("attention.head_count_kv") == 1},
    "gemma2": gemma, "gemma3_text": gemma, "gpt_oss": gpt_oss, "deepseek_v2": deepseek, "deepseek_v3": deepseek, "lfm2": lfm2, "mpt": mpt,
    "qwen3_moe": lambda file, config: config | {"norm_topk_prob": True},  # which files do not say
    "falcon": lambda file, config: config | {"new_decoder_architecture": "blk.0.attn_norm_2.weight" in file},
    # Factors are in the weights already; the gate comes before the norm.
    "falcon_h1": lambda file, config: config | {"mamba_norm_before_gate": False},
    "mamba2": lambda file, config: config | {"expand": (file.number("ssm.inner_size") or 0) / (file.number("embedding_length") or 1)},
}  # fmt: skip
