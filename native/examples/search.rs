//! An encoder says which texts mean something similar. (The README has this, too.)

use warpweft_native::{files, model::EmbedOptions, prelude::*};

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).expect("usage: search folder");
    let embedder = files::load_embedder(&Device::new_blocking()?, folder)?;
    let texts = ["A kitten rests on a rug.", "Share prices fell on Monday."];
    let vectors = embedder.embed(&texts, &EmbedOptions::default())?;
    let query = embedder.embed(&["pets"], &EmbedOptions::default())?;
    println!("{:?}", vectors.matmul(&query.transpose(0, 1)?)?.read_blocking::<f32>()?);
    Ok(())
}
