//! The header of an `.npy` file, which is a Python literal: a dictionary with three entries.

/// The entries of the header.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The type of the elements, such as `<f4`.
    pub descr: String,
    pub fortran: bool,
    pub shape: Vec<u64>,
}

/// The reason why a header cannot be read, with its position.
pub(super) type Wrong = (usize, String);

/// Parses the text of a header.
pub(super) fn header(text: &str) -> Result<Header, Wrong> {
    let mut reader = Reader { text, at: 0 };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    reader.expect('{')?;
    while !reader.takes('}') {
        let at = reader.at;
        let key = reader.text()?;
        reader.expect(':')?;
        let again = match key.as_str() {
            "descr" => descr.replace(reader.text()?).is_some(),
            "fortran_order" => fortran.replace(reader.truth()?).is_some(),
            "shape" => shape.replace(reader.extents()?).is_some(),
            _ => return Err((at, format!("must have known keys, got {key:?}"))),
        };
        if again {
            return Err((at, format!("must have distinct keys, got {key:?} twice")));
        }
        if !reader.takes(',') {
            reader.expect('}')?;
            break;
        }
    }
    reader.skip();
    if reader.at != text.len() {
        return Err((reader.at, "must end after the dictionary, got more".into()));
    }
    let missing = |name: &str| (text.len(), format!("must have {name:?}, got none"));
    Ok(Header {
        descr: descr.ok_or_else(|| missing("descr"))?,
        fortran: fortran.ok_or_else(|| missing("fortran_order"))?,
        shape: shape.ok_or_else(|| missing("shape"))?,
    })
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn skip(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\n', '\t', '\r']).len();
    }

    fn takes(&mut self, mark: char) -> bool {
        self.skip();
        let is_next = self.text[self.at..].starts_with(mark);
        if is_next {
            self.at += mark.len_utf8();
        }
        is_next
    }

    fn expect(&mut self, mark: char) -> Result<(), Wrong> {
        match self.takes(mark) {
            true => Ok(()),
            false => Err((self.at, format!("must have {mark:?} here, got something else"))),
        }
    }

    /// Reads text in single or double quotes. Valid texts have no escapes.
    fn text(&mut self) -> Result<String, Wrong> {
        let quote = if self.takes('"') { '"' } else { '\'' };
        if quote == '\'' {
            match self.takes('[') {
                true => {
                    return Err((
                        self.at - 1,
                        "must be of plain elements, got elements of several parts".into(),
                    ))
                }
                false => self.expect('\'')?,
            }
        }
        let rest = &self.text[self.at..];
        let Some(length) = rest.find(quote).filter(|&length| !rest[..length].contains('\\')) else {
            return Err((
                self.at,
                "must have strings that end, without escapes, got another".into(),
            ));
        };
        self.at += length + 1;
        Ok(rest[..length].to_string())
    }

    fn truth(&mut self) -> Result<bool, Wrong> {
        self.skip();
        let rest = &self.text[self.at..];
        for (word, truth) in [("True", true), ("False", false)] {
            if rest.starts_with(word) {
                self.at += word.len();
                return Ok(truth);
            }
        }
        Err((self.at, "must have True or False here, got something else".into()))
    }

    /// Reads numbers in parentheses. Python 2 wrote an `L` after each number.
    fn extents(&mut self) -> Result<Vec<u64>, Wrong> {
        let mut all = Vec::new();
        self.expect('(')?;
        while !self.takes(')') {
            let rest = &self.text[self.at..];
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let Ok(extent) = rest[..digits].parse() else {
                return Err((self.at, "must have extents of 64 bits, got another".into()));
            };
            all.push(extent);
            self.at += digits;
            if self.text[self.at..].starts_with('L') {
                self.at += 1;
            }
            if !self.takes(',') {
                match all.len() {
                    1 => return Err((self.at, "must have a shape with ',', got a number".into())),
                    _ => self.expect(')')?,
                }
                break;
            }
        }
        Ok(all)
    }
}
