//! Decodes the inside of a JSON string while it is still being generated.
//!
//! The decoded text always consists of whole characters. A part that may still change its meaning
//! is held back: a lone backslash, `\u12`, the first half of a surrogate pair.
//!
//! It never fails, because it is for display and models make mistakes: an unknown escape such as
//! `\d` is kept as it is, and an invalid character becomes U+FFFD.

/// Decodes one string after another.
#[derive(Debug, Default)]
pub(crate) struct Unescape {
    text: String,
    escape: Escape,
    /// The first half of a surrogate pair that waits for its second half.
    high: Option<u32>,
}

#[derive(Debug, Default, Clone, Copy)]
enum Escape {
    #[default]
    None,
    Backslash,
    Unicode {
        n_digits: u8,
        code: u32,
    },
}

impl Unescape {
    /// The text decoded so far.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Takes the decoded string, and starts the next one.
    pub(crate) fn take(&mut self) -> String {
        std::mem::take(&mut self.text)
    }

    /// Decodes the next piece. Returns what follows the closing quote, or `None` if there is none
    /// yet.
    pub(crate) fn push<'a>(&mut self, piece: &'a str) -> Option<&'a str> {
        let mut rest = piece;
        loop {
            rest = match self.escape {
                Escape::None => {
                    let Some(at) = rest.find(['"', '\\']) else {
                        self.push_plain(rest);
                        return None;
                    };
                    let (plain, from_mark) = rest.split_at(at);
                    self.push_plain(plain);
                    if let Some(after) = from_mark.strip_prefix('"') {
                        self.give_up_high();
                        return Some(after);
                    }
                    self.escape = Escape::Backslash;
                    from_mark.strip_prefix('\\').unwrap_or_default()
                }
                Escape::Backslash => {
                    let mut following = rest.chars();
                    self.push_escaped(following.next()?);
                    following.as_str()
                }
                Escape::Unicode { n_digits, code } => {
                    let mut following = rest.chars();
                    if let Some(digit) = following.next()?.to_digit(16) {
                        self.push_digit(n_digits + 1, code * 16 + digit);
                        following.as_str()
                    } else {
                        // The unfinished escape is invalid; this is text again.
                        self.escape = Escape::None;
                        self.push_char(char::REPLACEMENT_CHARACTER);
                        rest
                    }
                }
            }
        }
    }

    fn push_plain(&mut self, plain: &str) {
        if !plain.is_empty() {
            self.give_up_high();
            self.text.push_str(plain);
        }
    }

    fn push_char(&mut self, character: char) {
        self.give_up_high();
        self.text.push(character);
    }

    fn push_escaped(&mut self, letter: char) {
        self.escape = Escape::None;
        match letter {
            'u' => self.escape = Escape::Unicode { n_digits: 0, code: 0 },
            '"' | '\\' | '/' => self.push_char(letter),
            'n' => self.push_char('\n'),
            't' => self.push_char('\t'),
            'r' => self.push_char('\r'),
            'b' => self.push_char('\u{8}'),
            'f' => self.push_char('\u{c}'),
            unknown => {
                self.push_char('\\');
                self.text.push(unknown);
            }
        }
    }

    fn push_digit(&mut self, n_digits: u8, code: u32) {
        if n_digits < 4 {
            self.escape = Escape::Unicode { n_digits, code };
            return;
        }
        self.escape = Escape::None;
        match code {
            0xd800..=0xdbff => {
                self.give_up_high();
                self.high = Some(code);
            }
            0xdc00..=0xdfff => {
                let whole = self.high.take().map(|high| joined(high, code));
                self.text.push(whole.unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            _ => self.push_char(char_of(code)),
        }
    }

    /// The second half did not come.
    fn give_up_high(&mut self) {
        if self.high.take().is_some() {
            self.text.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

fn joined(high: u32, low: u32) -> char {
    char_of(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
}

fn char_of(code: u32) -> char {
    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)
}

#[cfg(test)]
#[path = "unescape_tests.rs"]
mod tests;
