//! Llama and Gemma 3 in plain `f64` loops, and small files of them.

use serde_json::json;
use std::collections::BTreeMap;
use std::io::Cursor;

/// A matrix, or a vector of one row: rows, columns and numbers.
pub struct Matrix(pub usize, pub usize, pub Vec<f32>);

/// A small model.
pub struct Toy {
    pub gemma: bool,
    pub layers: usize,
    pub width: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head: usize,
    pub hidden: usize,
    pub vocabulary: usize,
    pub window: Option<usize>,
    pub tied: bool,
    /// Whether the model is saved as Hugging Face's `transformers` does, and not as a GGUF file.
    pub in_folder: bool,
    pub weights: BTreeMap<String, Matrix>,
    /// Changes that are added to some of the matrices. They are not part of the file.
    pub changes: BTreeMap<String, Vec<f64>>,
}

/// Returns the n-th pseudorandom number between -1 and 1 (SplitMix64, Steele et al. 2014).
pub fn random(n: u64) -> f64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ z >> 31) >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

const EPSILON: f64 = 1e-5;
const BASE: f64 = 1_000.0;
/// The rotation base of Gemma 3 in windowed layers.
const LOCAL: f64 = 10_000.0;

impl Toy {
    /// Returns a model with random weights.
    pub fn new(gemma: bool, window: Option<usize>, tied: bool) -> Toy {
        let mut toy = Toy {
            gemma,
            layers: if gemma { 7 } else { 3 },
            width: 32,
            heads: 4,
            kv_heads: 2,
            head: if gemma { 16 } else { 8 },
            hidden: 48,
            vocabulary: 40,
            window,
            tied,
            in_folder: false,
            weights: BTreeMap::new(),
            changes: BTreeMap::new(),
        };
        let (width, q, kv) = (toy.width, toy.heads * toy.head, toy.kv_heads * toy.head);
        let mut add = |name: String, rows: usize, columns: usize| {
            let seed = 1_000_003 * toy.weights.len() as u64;
            // Norms are about 1, and matrices preserve magnitudes.
            let number = |i: usize| match rows {
                1 => 1.0 + 0.3 * random(seed + i as u64),
                _ => random(seed + i as u64) * 1.7 / (columns as f64).sqrt(),
            };
            let numbers = (0..rows * columns).map(|i| number(i) as f32).collect();
            toy.weights.insert(format!("{name}.weight"), Matrix(rows, columns, numbers));
        };
        add("token_embd".into(), toy.vocabulary, width);
        add("output_norm".into(), 1, width);
        if !tied {
            add("output".into(), toy.vocabulary, width);
        }
        for n in 0..toy.layers {
            let mut part =
                |name: &str, rows, columns| add(format!("blk.{n}.{name}"), rows, columns);
            part("attn_norm", 1, width);
            part("attn_q", q, width);
            part("attn_k", kv, width);
            part("attn_v", kv, width);
            part("attn_output", width, q);
            part("ffn_norm", 1, width);
            part("ffn_gate", toy.hidden, width);
            part("ffn_up", toy.hidden, width);
            part("ffn_down", width, toy.hidden);
            if gemma {
                part("attn_q_norm", 1, toy.head);
                part("attn_k_norm", 1, toy.head);
                part("post_attention_norm", 1, width);
                part("post_ffw_norm", 1, width);
            }
        }
        toy
    }

    /// Returns the file, with a vocabulary of letters.
    pub fn file(&self) -> Vec<u8> {
        self.files(1).remove(0)
    }

    /// Returns the model as several files, each with some of the weights.
    pub fn files(&self, count: usize) -> Vec<Vec<u8>> {
        let each = self.weights.len().div_ceil(count);
        let names: Vec<&String> = self.weights.keys().collect();
        let part = |(n, names): (usize, &[&String])| self.part(names, [n, count]);
        names.chunks(each).enumerate().map(part).collect()
    }

    /// Returns the files in a folder, as `transformers` saves them.
    pub fn folder(&self) -> Vec<(String, Cursor<Vec<u8>>)> {
        let config = json!({
            "model_type": if self.gemma { "gemma3_text" } else { "mistral" },
            "num_hidden_layers": self.layers, "hidden_size": self.width, "intermediate_size": self.hidden,
            "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head,
            "query_pre_attn_scalar": self.head, "max_position_embeddings": 64, "rms_norm_eps": EPSILON,
            "rope_theta": BASE, "rope_local_base_freq": LOCAL, "sliding_window": self.window,
            "tie_word_embeddings": self.tied,
        });
        let letters = (0..self.vocabulary).map(|n| (char::from(b'A' + n as u8).to_string(), n));
        let tokenizer = json!({
            "added_tokens": [], "decoder": { "type": "ByteLevel" },
            "pre_tokenizer": { "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true },
            "model": { "type": "BPE", "vocab": letters.collect::<BTreeMap<_, _>>(), "merges": [] },
        });
        let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
        for (name, Matrix(rows, columns, numbers)) in &self.weights {
            let start = data.len();
            for n in 0..*rows {
                let row = &numbers[self.row_in_gguf(name, n) * columns..][..*columns];
                // Gemma saves norms as their difference from 1.
                let less = if self.gemma && *rows == 1 { 1.0 } else { 0.0 };
                data.extend(row.iter().flat_map(|number| (number - less).to_le_bytes()));
            }
            let shape = if *rows == 1 { vec![*columns] } else { vec![*rows, *columns] };
            let entry =
                json!({ "dtype": "F32", "shape": shape, "data_offsets": [start, data.len()] });
            header.insert(self.name_in_folder(name), entry);
        }
        let header = serde_json::Value::Object(header).to_string();
        let length = (header.len() as u64).to_le_bytes();
        let weights = [&length[..], header.as_bytes(), &data].concat();
        let files = [
            ("config.json", config.to_string().into_bytes()),
            ("tokenizer.json", tokenizer.to_string().into_bytes()),
            ("model.safetensors", weights),
        ];
        files.map(|(name, bytes)| (name.to_string(), Cursor::new(bytes))).into()
    }

    /// Returns the row of a matrix in a GGUF file that is row `n` in a folder. In Llama's queries and keys, elements that are
    /// rotated together are next to each other in a GGUF file, and half a head apart in a folder.
    fn row_in_gguf(&self, name: &str, n: usize) -> usize {
        if self.gemma || !(name.ends_with("attn_q.weight") || name.ends_with("attn_k.weight")) {
            return n;
        }
        let (head, within) = (n / self.head, n % self.head);
        let half = self.head / 2;
        head * self.head + 2 * (within % half) + within / half
    }

    /// Returns the name of a tensor in `transformers`.
    fn name_in_folder(&self, name: &str) -> String {
        let Some(part) = name.strip_prefix("blk.") else {
            let outside = [
                ("token_embd.weight", "model.embed_tokens.weight"),
                ("output_norm.weight", "model.norm.weight"),
                ("output.weight", "lm_head.weight"),
            ];
            let found = outside.iter().find(|(gguf, _)| *gguf == name);
            return found.expect("a name outside of layers").1.to_string();
        };
        let (layer, part) = part.split_once('.').expect("a name in a layer");
        let module = match part.strip_suffix(".weight").expect("weights") {
            "attn_norm" => "input_layernorm",
            "attn_q" => "self_attn.q_proj",
            "attn_k" => "self_attn.k_proj",
            "attn_v" => "self_attn.v_proj",
            "attn_output" => "self_attn.o_proj",
            "ffn_norm" if self.gemma => "pre_feedforward_layernorm",
            "ffn_norm" | "post_attention_norm" => "post_attention_layernorm",
            "ffn_gate" => "mlp.gate_proj",
            "ffn_up" => "mlp.up_proj",
            "ffn_down" => "mlp.down_proj",
            "attn_q_norm" => "self_attn.q_norm",
            "attn_k_norm" => "self_attn.k_norm",
            "post_ffw_norm" => "post_feedforward_layernorm",
            other => panic!("no name for {other}"),
        };
        format!("model.layers.{layer}.{module}.weight")
    }

    fn part(&self, names: &[&String], [number, count]: [usize; 2]) -> Vec<u8> {
        let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
        let name = if self.gemma { "gemma3" } else { "llama" };
        let integer = |key: &str, value: usize| {
            let key = text(&format!("{name}.{key}"));
            [key, 4u32.to_le_bytes().to_vec(), (value as u32).to_le_bytes().to_vec()].concat()
        };
        let float = |key: &str, value: f64| {
            let key = text(&format!("{name}.{key}"));
            [key, 6u32.to_le_bytes().to_vec(), (value as f32).to_le_bytes().to_vec()].concat()
        };
        let string =
            |key: &str, value: &str| [text(key), 8u32.to_le_bytes().to_vec(), text(value)].concat();
        let letters = (0..self.vocabulary).map(|n| char::from(b'A' + n as u8).to_string());
        let letters: Vec<u8> = letters.flat_map(|letter| text(&letter)).collect();
        let kind = [9u32, 8].map(u32::to_le_bytes).concat();
        let letter_count = (self.vocabulary as u64).to_le_bytes().to_vec();
        let empty = [9u32, 8].map(u32::to_le_bytes).concat();
        let mut notes = vec![
            string("general.architecture", name),
            integer("block_count", self.layers),
            integer("embedding_length", self.width),
            integer("attention.head_count", self.heads),
            integer("attention.head_count_kv", self.kv_heads),
            integer("attention.key_length", self.head),
            integer("feed_forward_length", self.hidden),
            integer("context_length", 64),
            float("attention.layer_norm_rms_epsilon", EPSILON),
            float("rope.freq_base", BASE),
            string("tokenizer.ggml.model", "gpt2"),
            [text("tokenizer.ggml.tokens"), kind, letter_count, letters].concat(),
            [text("tokenizer.ggml.merges"), empty, 0u64.to_le_bytes().to_vec()].concat(),
        ];
        if count > 1 {
            let split = |key: &str, value: usize| {
                let kind = 4u32.to_le_bytes().to_vec();
                [text(key), kind, (value as u32).to_le_bytes().to_vec()].concat()
            };
            notes.extend([split("split.no", number), split("split.count", count)]);
        }
        notes.extend(self.window.map(|window| integer("attention.sliding_window", window)));
        let (mut rows, mut data) = (Vec::new(), Vec::new());
        for name in names {
            let Matrix(rows_of, columns, numbers) = &self.weights[*name];
            let axes = if *rows_of == 1 { vec![*columns] } else { vec![*columns, *rows_of] };
            rows.extend(text(name));
            rows.extend((axes.len() as u32).to_le_bytes());
            axes.iter().for_each(|&extent| rows.extend((extent as u64).to_le_bytes()));
            rows.extend(0u32.to_le_bytes());
            rows.extend((data.len() as u64).to_le_bytes());
            data.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
            data.resize(data.len().next_multiple_of(32), 0);
        }
        let counts = [names.len() as u64, notes.len() as u64].map(u64::to_le_bytes).concat();
        let mut file =
            [&b"GGUF"[..], &3u32.to_le_bytes(), &counts, &notes.concat(), &rows].concat();
        file.resize(file.len().next_multiple_of(32), 0);
        file.extend(data);
        file
    }

    fn product(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let Matrix(rows, columns, numbers) = &self.weights[&format!("{name}.weight")];
        assert_eq!(*columns, x.len(), "{name}");
        let row = |n: usize| &numbers[n * columns..][..*columns];
        let dot = |n| row(n).iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum::<f64>();
        let Some(change) = self.changes.get(name) else { return (0..*rows).map(dot).collect() };
        let row = |n: usize| &change[n * columns..][..*columns];
        let more = |n| row(n).iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
        (0..*rows).map(|n| dot(n) + more(n)).collect()
    }

    fn norm(&self, name: &str, x: &[f64]) -> Vec<f64> {
        let Matrix(_, _, weight) = &self.weights[&format!("{name}.weight")];
        let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
        let scale = 1.0 / (mean + f64::from(EPSILON as f32)).sqrt();
        x.iter().zip(weight).map(|(x, w)| x * scale * f64::from(*w)).collect()
    }

    /// Rotates a head by its position.
    fn turned(&self, x: &[f64], position: usize, base: f64) -> Vec<f64> {
        let (half, mut turned) = (self.head / 2, x.to_vec());
        for n in 0..half {
            let (a, b) = if self.gemma { (n, n + half) } else { (2 * n, 2 * n + 1) };
            let angle = position as f64 * base.powf(-2.0 * n as f64 / self.head as f64);
            turned[a] = x[a] * angle.cos() - x[b] * angle.sin();
            turned[b] = x[a] * angle.sin() + x[b] * angle.cos();
        }
        turned
    }

    /// Returns the logits after each token.
    pub fn logits(&self, tokens: &[u32]) -> Vec<Vec<f64>> {
        let Matrix(_, _, embedding) = &self.weights["token_embd.weight"];
        let scale = if self.gemma { (self.width as f64).sqrt() } else { 1.0 };
        let row = |&id: &u32| &embedding[id as usize * self.width..][..self.width];
        let mut xs: Vec<Vec<f64>> = tokens
            .iter()
            .map(|id| row(id).iter().map(|x| f64::from(*x) * scale).collect())
            .collect();
        for n in 0..self.layers {
            self.layer(n, &mut xs);
        }
        let output = if self.tied { "token_embd" } else { "output" };
        xs.iter().map(|x| self.product(output, &self.norm("output_norm", x))).collect()
    }

    fn layer(&self, n: usize, xs: &mut [Vec<f64>]) {
        let name = |part: &str| format!("blk.{n}.{part}");
        let all = self.gemma && n % 6 == 5;
        let (window, base) = match (self.gemma, all) {
            (true, false) => (self.window, LOCAL),
            (true, true) => (None, BASE),
            (false, _) => (self.window, BASE),
        };
        let heads = |x: &[f64], part: &str, position: Option<usize>| -> Vec<Vec<f64>> {
            let projected = self.product(&name(part), x);
            let one = |head: &[f64]| {
                let head = match self.gemma && position.is_some() {
                    true => self.norm(&name(&format!("{part}_norm")), head),
                    false => head.to_vec(),
                };
                position.map_or(head.clone(), |position| self.turned(&head, position, base))
            };
            projected.chunks(self.head).map(one).collect()
        };
        let mut keys = Vec::new();
        let mut values: Vec<Vec<Vec<f64>>> = Vec::new();
        for (position, x) in xs.iter_mut().enumerate() {
            let h = self.norm(&name("attn_norm"), x);
            let q = heads(&h, "attn_q", Some(position));
            keys.push(heads(&h, "attn_k", Some(position)));
            values.push(heads(&h, "attn_v", None));
            let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
            let mut seen = Vec::new();
            for (head, q) in q.iter().enumerate() {
                let kv = head * self.kv_heads / self.heads;
                let dot = |k: &[f64]| q.iter().zip(k).map(|(q, k)| q * k).sum::<f64>();
                let score = |at: usize| (dot(&keys[at][kv]) / (self.head as f64).sqrt()).exp();
                let weights: Vec<f64> = (first..=position).map(score).collect();
                let sum: f64 = weights.iter().sum();
                let mut mixed = vec![0.0; self.head];
                for (weight, value) in weights.iter().zip(&values[first..]) {
                    mixed.iter_mut().zip(&value[kv]).for_each(|(m, v)| *m += weight / sum * v);
                }
                seen.extend(mixed);
            }
            let mut added = self.product(&name("attn_output"), &seen);
            if self.gemma {
                added = self.norm(&name("post_attention_norm"), &added);
            }
            x.iter_mut().zip(&added).for_each(|(x, more)| *x += more);
            let h = self.norm(&name("ffn_norm"), x);
            let (gate, up) =
                (self.product(&name("ffn_gate"), &h), self.product(&name("ffn_up"), &h));
            let hidden: Vec<f64> =
                gate.iter().zip(&up).map(|(g, u)| self.activation(*g) * u).collect();
            let mut added = self.product(&name("ffn_down"), &hidden);
            if self.gemma {
                added = self.norm(&name("post_ffw_norm"), &added);
            }
            x.iter_mut().zip(&added).for_each(|(x, more)| *x += more);
        }
    }

    fn activation(&self, x: f64) -> f64 {
        let slope = (2.0 / std::f64::consts::PI).sqrt();
        match self.gemma {
            true => 0.5 * x * (1.0 + (slope * (x + 0.044_715 * x.powi(3))).tanh()),
            false => x / (1.0 + (-x).exp()),
        }
    }
}
