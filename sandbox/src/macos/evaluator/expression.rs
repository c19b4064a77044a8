//! Expressions: lists, words, texts.

use super::Broken;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    List(Vec<Expression>),
    Word(String),
    Text(String),
    /// `#"..."`, in which a backslash is a backslash.
    Raw(String),
}

/// All expressions of a text.
pub(super) fn read(text: &str) -> Result<Vec<Expression>, Broken> {
    let mut reader = Reader { rest: text };
    let mut all = Vec::new();
    while reader.skip() {
        all.push(reader.one()?);
    }
    Ok(all)
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Goes on to the next expression; false at the end.
    fn skip(&mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start();
            match self.rest.strip_prefix(';') {
                Some(comment) => self.rest = comment.find('\n').map_or("", |end| &comment[end..]),
                None => return !self.rest.is_empty(),
            }
        }
    }

    fn one(&mut self) -> Result<Expression, Broken> {
        if let Some(rest) = self.rest.strip_prefix('(') {
            self.rest = rest;
            return self.list();
        }
        if let Some(rest) = self.rest.strip_prefix("#\"") {
            return self.raw(rest);
        }
        if let Some(rest) = self.rest.strip_prefix('"') {
            return self.text(rest);
        }
        let end =
            self.rest.find(|c: char| c.is_whitespace() || "()\";".contains(c)).unwrap_or(self.rest.len());
        let word = &self.rest[..end];
        if word.is_empty() || word.contains(['#', '\'', '`', ',', '|', '\\']) {
            return Err(self.broken());
        }
        self.rest = &self.rest[end..];
        Ok(Expression::Word(word.to_owned()))
    }

    fn list(&mut self) -> Result<Expression, Broken> {
        let mut items = Vec::new();
        while self.skip() {
            if let Some(rest) = self.rest.strip_prefix(')') {
                self.rest = rest;
                return Ok(Expression::List(items));
            }
            items.push(self.one()?);
        }
        Err(self.broken())
    }

    fn raw(&mut self, rest: &'a str) -> Result<Expression, Broken> {
        let end = rest.find('"').ok_or_else(|| self.broken())?;
        self.rest = &rest[end + 1..];
        Ok(Expression::Raw(rest[..end].to_owned()))
    }

    fn text(&mut self, rest: &'a str) -> Result<Expression, Broken> {
        let end = rest.find('"').ok_or_else(|| self.broken())?;
        let text = &rest[..end];
        // None of ours has one, and how many there are in a row would matter.
        if text.contains('\\') {
            return Err(self.broken());
        }
        self.rest = &rest[end + 1..];
        Ok(Expression::Text(text.to_owned()))
    }

    fn broken(&self) -> Broken {
        Broken::Expression(self.rest.chars().take(40).collect())
    }
}
