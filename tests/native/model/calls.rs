//! Tests hundreds of random calls on contexts. After any calls and failures, the logits must match plain `f64` code for the
//! same tokens.

use super::tiny::{close, devices, load, load_with};
use super::toy_reference::Toy;
use warpweft::device::Device;
use warpweft::error::{ErrorKind, Result};
use warpweft::model::{Context, GenerateOptions};
use warpweft_native::prelude::*;

/// The number of tokens that the contexts have room for.
const ROOM: usize = 32;

/// Pseudorandom numbers (xorshift64, Marsaglia 2003).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    pub fn tokens(&mut self, count: usize) -> Vec<u32> {
        (0..count).map(|_| self.below(40) as u32).collect()
    }
}

/// Runs `work` while the device allocates no additional memory.
pub fn starved<T>(device: &Device, work: impl FnOnce() -> Result<T>) -> Result<T> {
    device.trim();
    device.set_memory_limit(Some(device.stats().used_bytes));
    let done = work();
    device.set_memory_limit(None);
    done
}

/// A context, and the tokens that it must contain.
struct Case<'a> {
    toy: &'a Toy,
    context: Context,
    tokens: Vec<u32>,
    what: String,
}

impl Case<'_> {
    /// Compares the logits of the last token, or of the last `count` tokens.
    fn expect(&self, logits: &Tensor, count: usize) {
        let all = self.toy.logits(&self.tokens);
        close(logits, &all[all.len() - count..].concat(), &self.what);
        assert_eq!(self.context.tokens(), self.tokens, "{}", self.what);
    }

    fn act(&mut self, random: &mut Random) {
        let left = ROOM - self.tokens.len();
        let call = random.below(8);
        self.what += &format!("\n{call} after {} tokens", self.tokens.len());
        let count = 1 + random.below(6);
        let new = random.tokens(count);
        match call {
            0..3 if new.len() <= left => {
                self.tokens.extend(&new);
                let logits = self.context.add(&new).expect("logits");
                self.expect(&logits, 1);
            }
            3 if new.len() <= left => {
                self.tokens.extend(&new);
                let logits = self.context.add_all(&new).expect("logits");
                self.expect(&logits, new.len());
            }
            4 => {
                self.tokens.truncate(random.below(self.tokens.len() + 1));
                self.tokens.extend(new.iter().take(ROOM - self.tokens.len()));
                if !self.tokens.is_empty() {
                    let logits = self.context.resume(&self.tokens).expect("logits");
                    self.expect(&logits, 1);
                }
            }
            5 => {
                let length = random.below(self.tokens.len() + 1);
                self.tokens.truncate(length);
                self.context.truncate(length);
            }
            6 if new.len() <= left => {
                let device = self.context.model().device().clone();
                let done = starved(&device, || {
                    let logits = self.context.add(&new)?;
                    logits.run()?;
                    Ok(logits)
                });
                match done {
                    Ok(logits) => {
                        self.tokens.extend(&new);
                        self.expect(&logits, 1);
                    }
                    // If only the read of the result failed, the context contains the tokens.
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Memory, "{}: {error}", self.what);
                        if self.context.len() > self.tokens.len() {
                            self.tokens.extend(&new);
                        }
                        assert_eq!(self.context.tokens(), self.tokens, "{}", self.what);
                    }
                }
            }
            7 if left > 2 && !self.tokens.is_empty() => {
                let options = GenerateOptions { ignore_end: true, ..GenerateOptions::default() };
                let mut generation =
                    self.context.generate(&self.tokens, options).expect("a generation");
                let mut made = Vec::new();
                for _ in 0..2 {
                    let token = generation.next_blocking().expect("a token").expect("one more");
                    let all = self.toy.logits(&self.tokens);
                    let last = &all[all.len() - 1];
                    let most = last.iter().copied().fold(f64::MIN, f64::max);
                    assert!(most - last[token.id as usize] < 1e-3, "{}", self.what);
                    made.push(token.id);
                    self.tokens.push(token.id);
                }
                drop(generation);
                // The context may or may not contain the last token.
                self.tokens.truncate(self.context.len());
                assert_eq!(self.context.tokens(), self.tokens, "{}", self.what);
            }
            _ => {
                let wrong = [vec![], vec![40], vec![1; left + 1]];
                let error = self.context.add(&wrong[random.below(3)]).expect_err("refused");
                assert!(error.message().starts_with("model: "), "{error}");
                assert_eq!(self.context.tokens(), self.tokens, "{}", self.what);
            }
        }
    }
}

#[test]
fn logits_are_right_whatever_was_called_before() {
    for (device, calls) in devices().iter().zip([1000, 100]) {
        for (gemma, seed) in [(false, 11), (true, 7)] {
            let toy = Toy::new(gemma, Some(5), true);
            let model = load(device, &toy);
            let mut random = Random(seed);
            let case = || Case {
                toy: &toy,
                context: model.context().expect("a context"),
                tokens: Vec::new(),
                what: format!("{device:?}, gemma: {gemma}, calls so far:"),
            };
            // Alternates between two contexts of one model.
            let mut cases = [case(), case()];
            for _ in 0..calls {
                let at = random.below(2);
                match random.below(40) {
                    0 => cases[at] = case(),
                    _ => cases[at].act(&mut random),
                }
            }
        }
    }
}

#[test]
fn windows_are_right_wherever_a_context_goes_back_to() {
    let toy = Toy { layers: 2, ..Toy::new(false, Some(3), true) };
    let mut random = Random(5);
    let tokens = random.tokens(1600);
    let want = toy.logits(&tokens);
    let device = &devices()[0];
    let model = load_with(device, &toy, 1600, DType::F32);
    let mut context = model.context().expect("a context");
    let mut failed = 0;
    for _ in 0..200 {
        if random.below(4) == 0 {
            let back = match random.below(2) {
                0 => random.below(context.len() + 1),
                _ => context.len() - random.below(5).min(context.len()),
            };
            context.truncate(back);
        }
        let (at, most) = (context.len(), [1, 1, 2, 700][random.below(4)]);
        let count = (1 + random.below(most)).min(1600 - at);
        if count == 0 {
            context.truncate(0);
            continue;
        }
        let new = &tokens[at..at + count];
        let logits = match random.below(8) {
            0 => match starved(device, || context.add(new)) {
                Ok(logits) => logits,
                Err(error) => {
                    assert_eq!((error.kind(), context.len()), (ErrorKind::Memory, at), "{error}");
                    failed += 1;
                    continue;
                }
            },
            _ => context.add(new).expect("logits"),
        };
        close(&logits, &want[at + count - 1], &format!("{count} tokens after {at}"));
    }
    assert!(failed > 5, "{failed} calls failed");
}
