//! Tests of the interpreter, on PTX that NVRTC compiled and on PTX written by hand.

mod basic;
mod common;
mod control;
mod detect;
mod fuzz;
mod half;
mod instructions;
mod integer;
mod math;
mod shared;
mod tensor;
mod warp;
