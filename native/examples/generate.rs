//! A language model from a GGUF file goes on with a text. (The README has this, too.)

use warpweft_native::{model::*, prelude::*};

fn main() -> Result<()> {
    let path = std::env::args().nth(1).expect("usage: generate model.gguf");
    let file = std::io::BufReader::new(std::fs::File::open(path).expect("the model can be read"));
    let model = LanguageModel::load(&Device::new_blocking()?, file, LoadOptions::default())?;
    let prompt = model.tokenizer().encode_with_ends("The capital of France is", true)?;
    let options = GenerateOptions { max_tokens: Some(20), ..GenerateOptions::default() };
    let mut context = model.context()?;
    for token in context.generate(&prompt, options)?.tokens_blocking() {
        print!("{}", token?.text);
    }
    Ok(())
}
