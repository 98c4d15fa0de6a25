//! Tests chat templates: the supported Jinja, the built-in templates, and their limits.

use super::gguf;
use super::golden::line;
use serde_json::json;
use std::time::Instant;
use warpweft::error::{ErrorKind, Result};
use warpweft::text::{ChatOptions, ChatTemplate, Message, Tokenizer};

fn render(source: &str, messages: &[Message], options: &ChatOptions) -> Result<String> {
    ChatTemplate::new(source)?.render(messages, options)
}

/// Renders a template with one message.
fn of(source: &str, content: &str) -> Result<String> {
    render(source, &[Message::new("user", content)], &ChatOptions::default())
}

fn conversation() -> [Message; 4] {
    [
        Message::new("system", " Be brief. "),
        Message::new("user", " Hi "),
        Message::new("assistant", " Hello! "),
        Message::new("user", "Bye"),
    ]
}

#[test]
fn built_in_templates_write_what_their_models_expect() {
    let expected = [
        (
            "chatml",
            "<|im_start|>system\n Be brief. <|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n Hello! \
             <|im_end|>\n<|im_start|>user\nBye<|im_end|>\n<|im_start|>assistant\n",
        ),
        (
            "llama2",
            "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] Bye [/INST]",
        ),
        (
            "llama3",
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user\
             <|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello!<|eot_id|>\
             <|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        (
            "gemma",
            "<bos><start_of_turn>user\nBe brief.\n\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n\
             <start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n",
        ),
        ("mistral", "<s>[INST]  Be brief. \n\n Hi  [/INST] Hello!</s>[INST] Bye [/INST]"),
        (
            "zephyr",
            "<|system|>\n Be brief. </s>\n<|user|>\n Hi </s>\n<|assistant|>\n Hello! </s>\n<|user|>\nBye</s>\n<|assistant|>\n",
        ),
        (
            "phi3",
            "<|system|>\n Be brief. <|end|>\n<|user|>\n Hi <|end|>\n<|assistant|>\n Hello! <|end|>\n<|user|>\nBye<|end|>\n\
             <|assistant|>\n",
        ),
        (
            "command-r",
            "<BOS_TOKEN><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>Be brief.<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|>\
             <|USER_TOKEN|>Hi<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>Hello!<|END_OF_TURN_TOKEN|>\
             <|START_OF_TURN_TOKEN|><|USER_TOKEN|>Bye<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        ),
        (
            "vicuna",
            "<s> Be brief. \n\nUSER:  Hi \nASSISTANT:  Hello! </s>\nUSER: Bye\nASSISTANT:",
        ),
    ];
    for (name, prompt) in expected {
        let template = ChatTemplate::named(name).expect("it is built in");
        let got = template.render(&conversation(), &ChatOptions::default()).expect("a prompt");
        assert_eq!(got, prompt, "{name}");
    }
    assert_eq!(ChatTemplate::names().count(), expected.len());
    let error = ChatTemplate::named("alpaca").expect_err("it is not there");
    assert!(error.message().starts_with("chat template: the name must be one of llama3, gemma,"));
}

#[test]
fn jinja_is_what_transformers_gives_templates() {
    let now = ChatOptions { now: Some(1_709_210_096), ..ChatOptions::default() };
    let cases = [
        // White space around blocks.
        ("{% if true %}\n  a\n  {% endif %}\nb\n", "  a\nb"),
        ("{{ strftime_now('%d %b %Y') }}", "29 Feb 2024"),
        ("{{ strftime_now('%A %-d %B %H:%M:%S %I %p %j %y %%') }}", "Thursday 29 February 12:34:56 12 PM 060 24 %"),
        ("{{ {'a': [1, 2.5, none, true], 'b': '<é>'} | tojson }}", r#"{"a": [1, 2.5, null, true], "b": "<é>"}"#),
        ("{{ [1, {}] | tojson(indent=2) }}", "[\n  1,\n  {}\n]"),
        ("{{ {'k': 'é😀'} | tojson(ensure_ascii=true) }}", r#"{"k": "\u00e9\ud83d\ude00"}"#),
        ("{{ [1, 2] | tojson(separators=(',', ':')) }}", "[1,2]"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "13"),
        ("{% for i in [1, 2, 3] %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "1"),
        ("{{ messages[0]['content'].strip().split(' ')[-1].upper() }}", "THERE"),
        ("{{ messages[0].content.startswith('Hi') }}", "True"),
        ("{% generation %}{{ messages[-1].role }}{%- endgeneration -%}  !", "user!"),
        ("{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}", "1"),
        ("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m('a') }}", "<a>"),
        ("{{ tools is defined }} {{ tools is none }} {{ x is defined }}", "True True False"),
        ("{% if tools is not none %}T{% endif %}{% if documents %}D{% endif %}", ""),
        ("{% for k, v in {'b': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "b1"),
    ];
    for (source, expected) in cases {
        let got = render(source, &[Message::new("user", "Hi there")], &now);
        assert_eq!(
            got.map_err(|error| error.message().to_string()),
            Ok(expected.to_string()),
            "{source}"
        );
    }
}

#[test]
fn null_is_the_empty_text() {
    let message = json!({ "role": "assistant", "content": null, "tool_calls": [] });
    let message: Message = serde_json::from_value(message).expect("a message");
    assert_eq!(message.content, "");
    assert!(serde_json::from_value::<Message>(json!({ "role": "user", "content": 1 })).is_err());
}

#[test]
fn tools_and_variables_reach_the_template() {
    let source = "{{ tools[0].function.name }} {{ enable_thinking }} {{ messages[0].tool_calls[0] | tojson }} {{ bos_token }}";
    let message: Message = serde_json::from_value(json!({
        "role": "assistant", "content": "", "tool_calls": [{"name": "f"}]
    }))
    .expect("a message");
    let options = ChatOptions {
        tools: vec![json!({"type": "function", "function": {"name": "weather"}})],
        variables: [("enable_thinking".to_string(), json!(false))].into(),
        ..ChatOptions::default()
    };
    let template = ChatTemplate::new(source).expect("Jinja").with_tokens("<s>", "</s>");
    let prompt = template.render(&[message], &options).expect("a prompt");
    assert_eq!(prompt, "weather False {\"name\": \"f\"} <s>");
}

#[test]
fn errors_name_the_line_and_the_reason() {
    let error = ChatTemplate::new("a\n{% if %}").expect_err("no Jinja");
    assert_eq!(error.kind(), ErrorKind::Format);
    let message = error.message();
    assert!(message.starts_with("chat template: the text must be Jinja, got"), "{message}");
    assert!(message.ends_with("(line 2)"), "{message}");
    let error = of("{{ raise_exception('roles must alternate') }}", "a").expect_err("it is raised");
    let expected = "chat template: it must accept the messages, got roles must alternate (line 1)";
    assert_eq!(error.message(), expected);
    assert!(of("{{ nothing.here }}", "a").is_err());
    assert!(of("{{ 'a' | nofilter }}", "a").is_err());
}

#[test]
fn templates_without_end_are_stopped() {
    let endless = [
        "{% for a in range(90000) %}{% for b in range(90000) %}{{ b }}{% endfor %}{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ 'a' * 10000000000 }}",
        "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% include 'chat_template' %}",
        "{{ range(100000000000) | list }}",
        "{{ strftime_now('%Y' * 1000000000) }}",
    ];
    for source in endless {
        let begun = Instant::now();
        let result = of(source, "a");
        assert!(result.is_err(), "{source}");
        assert!(begun.elapsed().as_secs() < 20, "{source} took {:?}", begun.elapsed());
    }
    let deep = "{% if true %}".repeat(100_000);
    assert!(ChatTemplate::new(&deep).is_err());
    assert!(ChatTemplate::new(&"a".repeat(2 << 20)).is_err());
    assert!(
        ChatTemplate::new(&format!("{{{{ {}1{} }}}}", "(".repeat(5000), ")".repeat(5000))).is_err()
    );
}

#[test]
fn gguf_files_have_templates_by_name() {
    let mut metadata = line("spm")["gguf"].clone();
    let none = ChatTemplate::from_gguf(&gguf(&metadata)).expect("no damage");
    assert!(none.is_none());
    metadata["tokenizer.chat_template"] = "{{ bos_token }}A{{ eos_token }}".into();
    metadata["tokenizer.chat_template.tool_use"] = "T".into();
    metadata["tokenizer.chat_templates"] = json!(["tool_use", "rag"]);
    metadata["tokenizer.chat_template.rag"] = "R".into();
    let file = gguf(&metadata);
    assert_eq!(ChatTemplate::names_in_gguf(&file), ["rag", "tool_use"]);
    let text = |template: Option<ChatTemplate>| {
        template.expect("it is there").render(&[], &ChatOptions::default()).expect("a prompt")
    };
    assert_eq!(text(ChatTemplate::from_gguf(&file).expect("no damage")), "<s>A<end>");
    assert_eq!(text(ChatTemplate::from_gguf_named(&file, "tool_use").expect("no damage")), "T");
    assert!(ChatTemplate::from_gguf_named(&file, "other").expect("no damage").is_none());
    metadata["tokenizer.chat_template"] = 3.into();
    let error = ChatTemplate::from_gguf(&gguf(&metadata)).expect_err("a number");
    assert_eq!(error.message(), "chat template: `tokenizer.chat_template` must be text, got 3");
    metadata["tokenizer.chat_template"] = "{{".into();
    let error = ChatTemplate::from_gguf(&gguf(&metadata)).expect_err("no Jinja");
    assert!(error.message().starts_with("chat template: `tokenizer.chat_template`: "), "{error}");
}

#[test]
fn bos_is_there_once() {
    let tokenizer = Tokenizer::from_gguf(&gguf(&line("spm")["gguf"])).expect("a tokenizer");
    let options = ChatOptions::default();
    let messages = [Message::new("user", "the")];
    for source in ["{{ bos_token }}{{ messages[0].content }}", "{{ messages[0].content }}"] {
        let template = ChatTemplate::new(source).expect("Jinja");
        let ids = template.encode(&tokenizer, &messages, &options).expect("ids");
        assert_eq!(ids.iter().filter(|&&id| id == 1).count(), 1, "{source}");
        assert_eq!(ids.first(), Some(&1), "{source}");
    }
}
