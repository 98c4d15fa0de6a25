//! Tokens of PTX text.

use crate::error::Error;

/// A token.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name, with its leading `%` or `$` if it has one.
    Name(String),
    /// A directive or suffix, without the leading dot.
    Dot(String),
    Integer(u64),
    /// The bits of a float literal, and its width: 32 for `0f`, 64 for `0d` and for decimal literals.
    Float(u64, u32),
    Text(String),
    Punct(char),
}

/// A token and its place.
#[derive(Clone, Debug)]
pub struct Placed {
    pub token: Token,
    pub line: u32,
    /// Byte range in the text.
    pub start: usize,
    pub end: usize,
}

/// Splits PTX text into tokens.
pub fn tokens(text: &str) -> Result<Vec<Placed>, Error> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0, line: 1 };
    let mut all = Vec::new();
    while lexer.skip_blank()? {
        let (start, line) = (lexer.at, lexer.line);
        let token = lexer.token()?;
        all.push(Placed { token, line, start, end: lexer.at });
    }
    Ok(all)
}

struct Lexer<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    line: u32,
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$'
}

impl Lexer<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips spaces and comments. Returns whether a token follows.
    fn skip_blank(&mut self) -> Result<bool, Error> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (b'/', b'/') => {
                    while self.at < self.bytes.len() && self.peek(0) != b'\n' {
                        self.at += 1;
                    }
                }
                (b'/', b'*') => {
                    let line = self.line;
                    self.at += 2;
                    while (self.peek(0), self.peek(1)) != (b'*', b'/') {
                        if self.at >= self.bytes.len() {
                            return Err(Error::parse(
                                line,
                                "comment: `*/` must follow, got the end of the text",
                            ));
                        }
                        self.line += u32::from(self.peek(0) == b'\n');
                        self.at += 1;
                    }
                    self.at += 2;
                }
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (byte, _) if byte.is_ascii_whitespace() => self.at += 1,
                (0, _) if self.at + 1 == self.bytes.len() => self.at += 1,
                _ => return Ok(self.at < self.bytes.len()),
            }
        }
    }

    fn name(&mut self) -> String {
        let start = self.at;
        while is_name(self.peek(0)) {
            self.at += 1;
        }
        self.text[start..self.at].to_string()
    }

    fn token(&mut self) -> Result<Token, Error> {
        let byte = self.peek(0);
        match byte {
            b'.' if is_name(self.peek(1)) && !self.peek(1).is_ascii_digit() => {
                self.at += 1;
                let mut name = self.name();
                while self.peek(0) == b':' && self.peek(1) == b':' && is_name(self.peek(2)) {
                    self.at += 2;
                    name = format!("{name}::{}", self.name());
                }
                Ok(Token::Dot(name))
            }
            b'%' if is_name(self.peek(1)) => {
                self.at += 1;
                Ok(Token::Name(format!("%{}", self.name())))
            }
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_ascii_digit() => self.number(),
            b'"' => {
                self.at += 1;
                let start = self.at;
                while self.at < self.bytes.len() && !matches!(self.peek(0), b'"' | b'\n') {
                    self.at += 1;
                }
                if self.peek(0) != b'"' {
                    return Err(Error::parse(self.line, "string: a closing quote must follow"));
                }
                self.at += 1;
                Ok(Token::Text(self.text[start..self.at - 1].to_string()))
            }
            _ if is_name(byte) => Ok(Token::Name(self.name())),
            _ if byte.is_ascii_graphic() => {
                self.at += 1;
                Ok(Token::Punct(byte as char))
            }
            _ => Err(Error::parse(
                self.line,
                format!("token: a printable ASCII character must follow, got {byte:#04x}"),
            )),
        }
    }

    fn number(&mut self) -> Result<Token, Error> {
        let (start, line) = (self.at, self.line);
        let kind = self.peek(1);
        if self.peek(0) == b'0' && matches!(kind, b'f' | b'F' | b'd' | b'D') {
            let width = if matches!(kind, b'f' | b'F') { 32 } else { 64 };
            self.at += 2;
            let digits = self.name();
            if digits.len() != width / 4 {
                let want = width / 4;
                return Err(Error::parse(
                    line,
                    format!("float: {want} hexadecimal digits must follow, got `{digits}`"),
                ));
            }
            let bits = u64::from_str_radix(&digits, 16);
            let bits = bits
                .map_err(|_| Error::parse(line, format!("float: `{digits}` is not hexadecimal")))?;
            return Ok(Token::Float(bits, width as u32));
        }
        while is_name(self.peek(0)) || self.is_fraction(start) {
            self.at += 1;
        }
        let text = &self.text[start..self.at];
        let radix = match text.as_bytes() {
            [b'0', b'x' | b'X', ..] => Some(16),
            [b'0', b'b' | b'B', ..] => Some(2),
            _ => None,
        };
        let digits = text.trim_end_matches(['U', 'u']);
        let integer = match radix {
            Some(radix) => u64::from_str_radix(&digits[2..], radix).ok(),
            None if digits.len() > 1 && digits.starts_with('0') && !digits.contains('.') => {
                u64::from_str_radix(&digits[1..], 8).ok()
            }
            None => digits.parse().ok(),
        };
        match (integer, text.parse::<f64>()) {
            (Some(value), _) => Ok(Token::Integer(value)),
            (None, Ok(value)) if radix.is_none() => Ok(Token::Float(value.to_bits(), 64)),
            _ => Err(Error::parse(line, format!("number: `{text}` is not a number"))),
        }
    }

    /// Whether a dot or a sign at this place continues the decimal number that began at `start`.
    fn is_fraction(&self, start: usize) -> bool {
        let text = &self.bytes[start..self.at];
        let has_exponent = matches!(text.last(), Some(b'e' | b'E')) && text.first() != Some(&b'0')
            || matches!(text.last(), Some(b'e' | b'E')) && text.contains(&b'.');
        match self.peek(0) {
            b'.' => {
                !text.contains(&b'.') && (self.peek(1).is_ascii_digit() || !is_name(self.peek(1)))
            }
            b'+' | b'-' => {
                has_exponent && self.peek(1).is_ascii_digit() && !text.starts_with(b"0x")
            }
            _ => false,
        }
    }
}
