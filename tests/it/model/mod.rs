//! Language models: small ones with random weights against plain `f64` code, and two real ones against exact values.

mod real;
mod tiny;
mod toy_reference;
