//! How weights learn.

mod schedule;

pub use schedule::{
    Anneal, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, ExponentialLr, LinearLr,
    MultiStepLr, OneCycleLr, OneCycleOptions, PlateauMode, PlateauOptions, PolynomialLr,
    ReduceLrOnPlateau, Schedule, SequentialLr, StepLr, ThresholdMode,
};
