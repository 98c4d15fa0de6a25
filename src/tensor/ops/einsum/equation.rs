//! The equation of an `einsum`: the labels of the axes of each operand and of the result.

use crate::error::{brief, Error, Result};
use crate::sorted;
use std::fmt;

/// The name of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    Letter(char),
    /// An axis of the ellipsis, counted from the last one.
    Ellipsis(usize),
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Label::Letter(letter) => write!(f, "'{letter}'"),
            Label::Ellipsis(at) => write!(f, "{} from the end of '...'", at + 1),
        }
    }
}

/// The labels of each operand's axes, and of the result's.
pub struct Equation {
    pub operands: Vec<Vec<Label>>,
    pub result: Vec<Label>,
}

/// The labels of one operand: its letters, and the position of an ellipsis among them.
struct Term {
    letters: Vec<char>,
    ellipsis: Option<usize>,
}

impl Term {
    fn new(equation: &str, text: &str) -> Result<Term> {
        let mut term = Term { letters: Vec::new(), ellipsis: None };
        let mut rest = text;
        while let Some(letter) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("...") {
                if term.ellipsis.replace(term.letters.len()).is_some() {
                    let text = brief(text);
                    let message = format!(
                        "einsum: a term must have at most one ellipsis, got {text} in {equation}"
                    );
                    return Err(Error::shape(message));
                }
                rest = after;
                continue;
            }
            if !letter.is_ascii_alphabetic() {
                let message = format!(
                    "einsum: axes must be named by ASCII letters, got {letter:?} in {equation}"
                );
                return Err(Error::shape(message));
            }
            term.letters.push(letter);
            rest = &rest[1..];
        }
        Ok(term)
    }

    /// Returns the labels, with an ellipsis replaced by `count` axes.
    fn labels(&self, count: usize) -> Vec<Label> {
        let mut labels: Vec<Label> = self.letters.iter().map(|&l| Label::Letter(l)).collect();
        if let Some(at) = self.ellipsis {
            labels.splice(at..at, (0..count).rev().map(Label::Ellipsis));
        }
        labels
    }
}

impl Equation {
    /// Parses the text for operands of these shapes. Without an arrow, the result has the ellipsis, and then the letters
    /// that occur once, in alphabetical order.
    pub fn new(text: &str, shapes: &[&[usize]]) -> Result<Equation> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let (left, right) = match plain.split_once("->") {
            Some((left, right)) => (left, Some(right)),
            None => (&plain[..], None),
        };
        let text = &brief(text)[..];
        let terms: Result<Vec<Term>> = left.split(',').map(|term| Term::new(text, term)).collect();
        let terms = terms?;
        if terms.len() != shapes.len() {
            let (named, given) = (terms.len(), shapes.len());
            let message = format!(
                "einsum: {text} must have one term for each of {given} operands, got {named}"
            );
            return Err(Error::shape(message));
        }
        let (mut operands, mut longest) = (Vec::new(), 0);
        for (n, (term, shape)) in terms.iter().zip(shapes).enumerate() {
            let more = shape.len().checked_sub(term.letters.len());
            let Some(more) = more.filter(|&more| more == 0 || term.ellipsis.is_some()) else {
                let (named, or_more) =
                    (term.letters.len(), term.ellipsis.map_or("", |_| " or more"));
                let message = format!(
                    "einsum: operand {n} of {text} must have rank {named}{or_more}, got shape {shape:?}"
                );
                return Err(Error::shape(message));
            };
            longest = longest.max(more);
            operands.push(term.labels(more));
        }
        let result = match right {
            Some(right) => Term::new(text, right)?.labels(longest),
            None => {
                let mut all = operands.concat();
                sorted::sort(&mut all);
                let once = |label: &Label| all.iter().filter(|&other| other == label).count() == 1;
                let letters = all.iter().filter(|l| matches!(l, Label::Letter(_)) && once(l));
                let ellipsis = (0..longest).rev().map(Label::Ellipsis);
                ellipsis.chain(letters.copied()).collect()
            }
        };
        let equation = Equation { operands, result };
        equation.check(text, shapes)?;
        Ok(equation)
    }

    /// Rejects labels of the result that are unknown or repeated, and labels with two extents.
    fn check(&self, text: &str, shapes: &[&[usize]]) -> Result<()> {
        for (at, label) in self.result.iter().enumerate() {
            let must = if self.result[..at].contains(label) {
                "be distinct"
            } else if !self.operands.iter().any(|labels| labels.contains(label)) {
                "be those of an operand"
            } else {
                continue;
            };
            let message = format!("einsum: axes of the result must {must}, got {label} in {text}");
            return Err(Error::shape(message));
        }
        // For each label, the first operand in which its axis is longer than 1.
        let mut known: Vec<(Label, usize, usize)> = Vec::new();
        for (n, (labels, shape)) in self.operands.iter().zip(shapes).enumerate() {
            for (at, (&label, &extent)) in labels.iter().zip(*shape).enumerate() {
                let before = labels[..at].iter().position(|&other| other == label);
                let here = before.map(|before| (label, n, shape[before]));
                let there = known.iter().copied().find(|&(other, ..)| other == label);
                let differs = match (here, there) {
                    // Axes of a diagonal do not broadcast.
                    (Some((.., other)), _) => extent != other,
                    (_, Some((.., other))) => extent != 1 && extent != other,
                    _ => false,
                };
                if let (true, Some((_, first, other))) = (differs, here.or(there)) {
                    let message = format!(
                        "einsum: {label} of {text} must have one extent, got {other} in operand {first}, shape {:?}, \
                         and {extent} in operand {n}, shape {shape:?}",
                        shapes[first]
                    );
                    return Err(Error::shape(message));
                }
                if extent != 1 && there.is_none() {
                    known.push((label, n, extent));
                }
            }
        }
        Ok(())
    }
}
