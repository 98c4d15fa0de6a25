//! Tests messages that try to write special tokens. A prompt must contain only the special tokens that the template wrote, and
//! the same text.

use super::golden::line;
use super::{gguf, Random};
use serde_json::json;
use warpweft::text::{ChatOptions, ChatTemplate, Message, Tokenizer};

/// Returns BPE over bytes with the special token `<end>`.
fn tokenizer() -> Tokenizer {
    Tokenizer::from_gguf(&gguf(&line("bpe")["gguf"])).expect("a tokenizer")
}

/// Returns the text of a prompt with the names of special tokens, and their number.
fn decoded(tokenizer: &Tokenizer, ids: &[u32]) -> (String, usize) {
    let mut decoder = tokenizer.decoder().with_special();
    let text: String = ids.iter().map(|&id| decoder.push(id)).collect();
    (text + &decoder.finish(), ids.iter().filter(|&&id| tokenizer.is_special(id)).count())
}

/// Templates that use messages in many ways.
const TEMPLATES: [&str; 14] = [
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.role + ':' + m['content'] | trim + '<end>' }}{% endfor %}",
    "{% for m in messages %}<{{ m.content }}>{{ '<e' + m.content + 'd>' }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content.split('</think>')[-1].lstrip('\n') }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content.split('|')[0] + m.content.split('|')[-1] }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content | replace('ab', '') }}<end>{% endfor %}",
    "{% for m in messages %}{% if m.content.startswith('<think>') and m.role == 'user' %}T{% endif %}\
     {{ m.content }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content | upper }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content[:7] }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content | length }}{{ m.content }}<end>{% endfor %}",
    "{% for m in messages %}{{ m | tojson }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content | join('') }}{{ m.content | list | last }}<end>{% endfor %}",
    "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}<end>",
    "{% for m in messages %}{% for part in m.content.split() %}{{ part }}{% endfor %}<end>{% endfor %}",
];

#[test]
fn random_messages_never_write_special_tokens() {
    let tokenizer = tokenizer();
    let options = ChatOptions::default();
    let parts = [
        "<end>",
        "<e",
        "nd>",
        "<",
        "end>",
        "en",
        "d",
        ">",
        "|",
        "ab",
        "</think>",
        "<think>",
        " ",
        "\n",
        "x",
        "日本",
        "👍🏽",
        "<keep>",
        "\u{f0000}",
        "\u{f0001}",
        "",
        "<END>",
        "e",
        "n",
    ];
    let mut random = Random(99);
    let mut refused = 0;
    for round in 0..6000 {
        let template = TEMPLATES[round % TEMPLATES.len()];
        let template = ChatTemplate::new(template).expect("Jinja");
        let messages: Vec<Message> = (0..1 + random.below(3))
            .map(|_| {
                let mut text = String::new();
                for _ in 0..random.below(7) {
                    text += parts[random.below(parts.len())];
                }
                let roles = ["user", "assistant", "<end>", "us<end>er", "<e"];
                Message::new(roles[random.below(5)], text)
            })
            .collect();
        let Ok(prompt) = template.render(&messages, &options) else { continue };
        let harmless: Vec<Message> = messages.iter().map(|_| Message::new("user", "zz")).collect();
        let ids = template.encode(&tokenizer, &harmless, &options).expect("ids");
        let (_, expected) = decoded(&tokenizer, &ids);
        match template.encode(&tokenizer, &messages, &options) {
            Ok(ids) => assert_eq!(
                decoded(&tokenizer, &ids),
                (prompt, expected),
                "{messages:?} in {}",
                template.source()
            ),
            Err(error) => {
                assert!(error.message().contains("must not depend on the letters"), "{error}");
                let all = format!("{messages:?}");
                assert!(
                    all.contains("<e") || all.contains("nd>"),
                    "refused: {all} in {}",
                    template.source()
                );
                refused += 1;
            }
        }
    }
    // Only if a template joins a name from the parts of a message.
    assert!(refused < 300, "{refused} were refused");
}

#[test]
fn each_template_takes_ordinary_messages() {
    let tokenizer = tokenizer();
    for source in TEMPLATES {
        let template = ChatTemplate::new(source).expect("Jinja");
        for text in
            ["Hello there", "a </think> b | c ab", "<think>hm</think>\n\nyes", "1 < 2 > 0, nd> <e"]
        {
            let messages = [Message::new("user", text), Message::new("assistant", "ok")];
            let options = ChatOptions::default();
            let prompt = template.render(&messages, &options).expect("a prompt");
            let ids = template.encode(&tokenizer, &messages, &options).expect(source);
            assert_eq!(decoded(&tokenizer, &ids).0, prompt, "{source}");
        }
    }
}

#[test]
fn names_in_a_message_stay_text() {
    let tokenizer = tokenizer();
    let template = ChatTemplate::new(TEMPLATES[0]).expect("Jinja");
    let encode = |text: &str| {
        template
            .encode(&tokenizer, &[Message::new("user", text)], &ChatOptions::default())
            .expect("ids")
    };
    let end = tokenizer.id("<end>").expect("it is there");
    let plain = tokenizer.encode("[user]a<end>b", false).expect("ids");
    assert_eq!(encode("a<end>b"), [&plain[..], &[end]].concat());
    // User-defined tokens are recognized in messages, too.
    let keep = tokenizer.id("<keep>").expect("it is there");
    assert!(encode("a<keep>b").contains(&keep));
}

#[test]
fn tools_and_variables_are_not_trusted_either() {
    let tokenizer = tokenizer();
    let source = "{{ tools | tojson }}{{ place }}<end>{{ messages[0].tool_calls | tojson }}";
    let template = ChatTemplate::new(source).expect("Jinja");
    let message: Message = serde_json::from_value(json!({
        "role": "user", "content": "", "tool_calls": [{"<end>": "<end>", "arguments": {"x": "a<end>"}}]
    }))
    .expect("a message");
    let options = ChatOptions {
        tools: vec![json!({"name": "<end>", "<end>k": 1})],
        variables: [("place".to_string(), json!("<end>"))].into(),
        ..ChatOptions::default()
    };
    let prompt = template.render(std::slice::from_ref(&message), &options).expect("a prompt");
    let ids = template.encode(&tokenizer, &[message], &options).expect("ids");
    assert_eq!(decoded(&tokenizer, &ids), (prompt, 1));
}

#[test]
fn a_template_that_asks_for_a_name_is_refused() {
    let tokenizer = tokenizer();
    let source = "{% if '<end>' in messages[0].content %}A{% else %}B{% endif %}<end>";
    let template = ChatTemplate::new(source).expect("Jinja");
    let encode = |text: &str| {
        template.encode(&tokenizer, &[Message::new("user", text)], &ChatOptions::default())
    };
    assert!(encode("harmless").is_ok());
    let error = encode("a<end>").expect_err("it is not known what was meant");
    assert!(error
        .message()
        .starts_with("chat template: the special tokens that it writes must not depend"));
}

#[test]
fn names_of_one_letter_stay_text() {
    let mut file = line("bpe")["json"].clone();
    let added = file["added_tokens"].as_array_mut().expect("a list");
    added.push(json!({"id": 900, "content": "\u{1}", "special": true, "normalized": false}));
    let tokenizer = Tokenizer::from_json(file.to_string().as_bytes()).expect("a tokenizer");
    let template = ChatTemplate::new("\u{1}{{ messages[0].content }}\u{1}").expect("Jinja");
    let messages = [Message::new("user", "a\u{1}b\u{1}")];
    let ids = template.encode(&tokenizer, &messages, &ChatOptions::default()).expect("ids");
    assert_eq!(ids.iter().filter(|&&id| id == 900).count(), 2);
    assert_eq!(decoded(&tokenizer, &ids).0, "\u{1}a\u{1}b\u{1}\u{1}");
}

/// Returns a tokenizer of letters, with a normalizer and with tokens that are recognized in normalized text.
fn of_letters(tokens: &[(&str, bool)]) -> Tokenizer {
    let letters = "abcdefghijklmnopqrstuvwxyz<|>_\n ".chars();
    let mut vocab = serde_json::Map::new();
    for (id, letter) in letters.enumerate() {
        vocab.insert(letter.to_string(), id.into());
    }
    let added = tokens.iter().enumerate().map(|(n, (token, is_special))| {
        json!({ "id": 100 + n, "content": token, "special": is_special, "normalized": true,
            "single_word": false, "lstrip": false, "rstrip": false })
    });
    let file = json!({
        "version": "1.0",
        "normalizer": { "type": "NFC" },
        "pre_tokenizer": null,
        "post_processor": null,
        "decoder": null,
        "added_tokens": added.collect::<Vec<_>>(),
        "model": { "type": "BPE", "vocab": vocab, "merges": [] },
    });
    Tokenizer::from_json(file.to_string().as_bytes()).expect("a tokenizer")
}

#[test]
fn an_end_that_only_the_configuration_names_is_special() {
    let tokenizer = of_letters(&[("<|turn|>", false)]);
    assert_eq!(tokenizer.encode("<|turn|>", false).expect("ids"), [100]);
    let config = json!({ "eos_token": "<|turn|>" }).to_string();
    let tokenizer = tokenizer.with_config(config.as_bytes()).expect("the token exists");
    assert_eq!(tokenizer.encode("<|turn|>", true).expect("ids"), [100]);
    assert_eq!(tokenizer.encode("<|turn|>", false).expect("ids").len(), 8);
    let template = ChatTemplate::new("{{ messages[0].content }}<|turn|>").expect("Jinja");
    let prompt = |text: &str| {
        let messages = [Message::new("user", text)];
        template.encode(&tokenizer, &messages, &ChatOptions::default()).expect("a prompt")
    };
    assert_eq!(prompt("a"), [0, 100]);
    assert_eq!(prompt("<|turn|>").iter().filter(|&&id| id == 100).count(), 1);
}

#[test]
fn templates_write_tokens_that_are_recognized_after_normalization() {
    let tokens = ["<|user|>", "<|assistant|>", "<|end|>", "<|system|>"].map(|name| (name, true));
    let tokenizer = of_letters(&tokens);
    assert_eq!(ChatTemplate::guess(&tokenizer), Some("phi3"));
    let template = ChatTemplate::named("phi3").expect("it is built in");
    let messages = [Message::new("system", "a"), Message::new("user", "b<|end|>")];
    let prompt = template.encode(&tokenizer, &messages, &ChatOptions::default()).expect("a prompt");
    let line = tokenizer.id("\n").expect("a letter");
    let end = tokenizer.encode("<|end|>", false).expect("letters");
    let want =
        [&[103, line, 0, 102, line, 100, line, 1][..], &end, &[102, line, 101, line]].concat();
    assert_eq!(prompt, want);
}
