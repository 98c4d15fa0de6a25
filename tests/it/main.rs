//! All native tests, in one binary.
#![cfg(not(target_arch = "wasm32"))]

mod algebra;
mod bench;
mod caches;
#[path = "../cases/mod.rs"]
mod cases;
mod completion;
#[path = "../conformance/mod.rs"]
mod conformance;
mod costs;
mod cpu;
mod custom;
mod data;
mod deferred;
mod devices;
mod differential;
mod dynamic_shapes;
mod edges;
mod example_backend;
mod exit;
mod faults;
mod features;
mod fuzz;
mod gpu;
mod history;
mod interop;
mod io;
mod js;
mod losses;
mod lru;
mod memory;
mod micrograd;
mod model;
mod plan;
mod poison;
mod profile;
#[path = "../programs/mod.rs"]
mod programs;
mod readme;
mod reference;
mod refused;
mod run_conformance;
mod run_programs;
mod schedules;
mod shaders;
#[allow(dead_code)] // The library is compiled without its own tests, so those of this file run here.
#[path = "../../src/sorted.rs"]
mod sorted;
mod state;
mod suite;
mod table;
mod text;
mod tidy;
mod train;
mod training;
mod tune;
mod wrapper;
