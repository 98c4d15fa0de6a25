//! Built-in templates for files without one. Each writes the same prompt as the template of the models that it is named
//! after.

/// A built-in template.
pub(super) struct Builtin {
    pub(super) name: &'static str,
    pub(super) bos: &'static str,
    pub(super) eos: &'static str,
    /// Special tokens that identify a vocabulary for this template. The list is empty if they cannot.
    pub(super) tokens: &'static [&'static str],
    pub(super) source: &'static str,
}

/// All built-in templates. The first one that fits a vocabulary is the guess.
pub(super) const TEMPLATES: &[Builtin] = &[
    Builtin {
        name: "llama3",
        bos: "<|begin_of_text|>",
        eos: "<|eot_id|>",
        tokens: &["<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        source: LLAMA3,
    },
    Builtin {
        name: "gemma",
        bos: "<bos>",
        eos: "<eos>",
        tokens: &["<start_of_turn>", "<end_of_turn>"],
        source: GEMMA,
    },
    Builtin {
        name: "chatml",
        bos: "",
        eos: "<|im_end|>",
        tokens: &["<|im_start|>", "<|im_end|>"],
        source: CHATML,
    },
    Builtin {
        name: "phi3",
        bos: "<s>",
        eos: "<|end|>",
        tokens: &["<|user|>", "<|assistant|>", "<|end|>"],
        source: PHI3,
    },
    Builtin {
        name: "command-r",
        bos: "<BOS_TOKEN>",
        eos: "<|END_OF_TURN_TOKEN|>",
        tokens: &["<|START_OF_TURN_TOKEN|>", "<|CHATBOT_TOKEN|>"],
        source: COMMAND_R,
    },
    Builtin { name: "llama2", bos: "<s>", eos: "</s>", tokens: &[], source: LLAMA2 },
    Builtin {
        name: "mistral",
        bos: "<s>",
        eos: "</s>",
        tokens: &["[INST]", "[/INST]"],
        source: MISTRAL,
    },
    Builtin { name: "zephyr", bos: "<s>", eos: "</s>", tokens: &[], source: ZEPHYR },
    Builtin { name: "vicuna", bos: "<s>", eos: "</s>", tokens: &[], source: VICUNA },
];

const CHATML: &str = "\
{%- for message in messages %}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

const LLAMA3: &str = "\
{{- bos_token }}
{%- for message in messages %}
{{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}
{{- message['content'] | trim }}
{{- '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

/// Gemma has no system role, so a system message begins the first message.
const GEMMA: &str = "\
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}
{%- set ns.system = message['content'] | trim + '\\n\\n' %}
{%- else %}
{%- set role = 'model' if message['role'] == 'assistant' else message['role'] %}
{{- '<start_of_turn>' + role + '\\n' }}
{%- if role != 'model' %}{{ ns.system }}{% set ns.system = '' %}{% endif %}
{{- message['content'] | trim }}
{{- '<end_of_turn>\\n' }}
{%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}";

const PHI3: &str = "\
{%- for message in messages %}
{%- if message['role'] == 'system' %}{{ '<|system|>\\n' }}
{%- elif message['role'] == 'assistant' %}{{ '<|assistant|>\\n' }}
{%- else %}{{ '<|user|>\\n' }}{% endif %}
{{- message['content'] + '<|end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

const COMMAND_R: &str = "\
{{- bos_token }}
{%- for message in messages %}
{%- if message['role'] == 'system' %}{{ '<|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>' }}
{%- elif message['role'] == 'assistant' %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}
{%- else %}{{ '<|START_OF_TURN_TOKEN|><|USER_TOKEN|>' }}{% endif %}
{{- message['content'] | trim }}{{ '<|END_OF_TURN_TOKEN|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}";

const LLAMA2: &str = "\
{%- set ns = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}
{%- set ns.system = '<<SYS>>\\n' + message['content'] | trim + '\\n<</SYS>>\\n\\n' %}
{%- elif message['role'] == 'assistant' %}
{{- ' ' + message['content'] | trim + ' ' + eos_token }}
{%- else %}
{{- bos_token + '[INST] ' + ns.system + message['content'] | trim + ' [/INST]' }}
{%- set ns.system = '' %}
{%- endif %}
{%- endfor %}";

const MISTRAL: &str = "\
{{- bos_token }}
{%- set ns = namespace(system='') %}
{%- for message in messages %}
{%- if message['role'] == 'system' %}
{%- set ns.system = message['content'] + '\\n\\n' %}
{%- elif message['role'] == 'assistant' %}
{{- ' ' + message['content'] | trim + eos_token }}
{%- else %}
{{- '[INST] ' + ns.system + message['content'] + ' [/INST]' }}
{%- set ns.system = '' %}
{%- endif %}
{%- endfor %}";

const ZEPHYR: &str = "\
{%- for message in messages %}
{{- '<|' + message['role'] + '|>\\n' + message['content'] + eos_token + '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}";

const VICUNA: &str = "\
{{- bos_token }}
{%- for message in messages %}
{%- if message['role'] == 'system' %}{{ message['content'] + '\\n\\n' }}
{%- elif message['role'] == 'assistant' %}{{ 'ASSISTANT: ' + message['content'] + eos_token + '\\n' }}
{%- else %}{{ 'USER: ' + message['content'] + '\\n' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}";
