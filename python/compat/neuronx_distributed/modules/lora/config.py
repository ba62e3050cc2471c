"""neuronx_distributed.modules.lora.config: which layers get adapters, how large, and what is saved."""

from dataclasses import asdict, dataclass

_SAVED = ("bias", "init_lora_weights", "lora_alpha", "lora_dropout", "lora_rank", "use_rslora", "target_modules", "modules_to_save",
          "save_lora_base", "merge_lora", "save_lora_config_adapter")  # fmt: skip


@dataclass
class LoraConfig:
    lora_rank: int = 16
    target_modules: list[str] | str | None = None  # ends of names, or a regular expression
    lora_alpha: int = 8
    lora_dropout: float = 0.0
    bias: str = "none"  # all, lora_only
    use_rslora: bool = False
    init_lora_weights: str = "default"  # gaussian
    modules_to_save: list[str] | None = None  # trained and saved whole
    lora_verbose: bool = False
    load_lora_from_ckpt: bool = False
    lora_load_tag: str | None = None
    lora_save_dir: str | None = "lora_adapter"
    merge_lora: bool = False
    save_lora_base: bool = False
    save_lora_config_adapter: bool = False
    merge_sharded_lora: bool = True

    def __post_init__(self):
        if self.lora_rank < 1:
            raise ValueError(f"LoraConfig: found lora_rank={self.lora_rank}, expected 1 or more")
        if self.bias not in ("none", "all", "lora_only") or self.init_lora_weights not in ("default", "gaussian"):
            raise ValueError(f"LoraConfig: found bias={self.bias!r}, init_lora_weights={self.init_lora_weights!r}, expected none, all or lora_only, and "
                             "default or gaussian")  # fmt: skip

    @staticmethod
    def get_selected_fields():
        return list(_SAVED)

    def selected_fields_to_save(self):
        return {**{k: v for k, v in asdict(self).items() if k in _SAVED}, "r": self.lora_rank}
