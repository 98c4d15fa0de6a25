//! What neural networks are made of.

mod loss;

pub use loss::{CrossEntropyOptions, LossReduction, PoissonNllOptions, TripletMarginOptions};
