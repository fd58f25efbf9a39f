//! Scans a JSON text without building it, and rejects what typed parsing accepts: an object with a
//! duplicate key, and U+0000, which PostgreSQL cannot store and clients never intend.

use std::collections::HashSet;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};

use crate::http::error::ApiError;

/// Checks a text that is known to be JSON; the given top-level field may contain NUL.
pub fn check(bytes: &[u8], nul_in: &str) -> Result<(), ApiError> {
    let mut path = Vec::new();
    let mut nul = None;
    let walk = Walk {
        path: &mut path,
        nul: &mut nul,
        nul_in,
    };

    let walked = walk.deserialize(&mut serde_json::Deserializer::from_slice(bytes));
    match (walked, nul) {
        (Ok(()), None) => Ok(()),
        (_, Some(field)) => Err(ApiError::invalid_field(
            field,
            "must not contain the character U+0000",
        )),
        (Err(error), None) => Err(super::not_json(&error)),
    }
}

/// A step on the path to a value.
enum Step {
    Field(String),
    Item(usize),
}

struct Walk<'a> {
    path: &'a mut Vec<Step>,
    /// Where a NUL was found.
    nul: &'a mut Option<String>,
    /// The field that may contain NUL.
    nul_in: &'a str,
}

impl Walk<'_> {
    fn text<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        if !text.contains('\0')
            || matches!(self.path.as_slice(), [Step::Field(name)] if name == self.nul_in)
        {
            return Ok(());
        }
        *self.nul = Some(shown(self.path));
        Err(E::custom("U+0000"))
    }
}

/// A path in the notation of error messages: `tags[2]`, `options.model`.
fn shown(path: &[Step]) -> String {
    let shown = path.iter().fold(String::new(), |path, step| match step {
        Step::Field(name) if path.is_empty() => name.clone(),
        Step::Field(name) => format!("{path}.{name}"),
        Step::Item(index) => format!("{path}[{index}]"),
    });
    shown.replace('\0', "\u{fffd}")
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        self.text(text)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        for index in 0.. {
            self.path.push(Step::Item(index));
            if items
                .next_element_seed(Walk {
                    path: &mut *self.path,
                    nul: &mut *self.nul,
                    nul_in: self.nul_in,
                })?
                .is_none()
            {
                break;
            }
            self.path.pop();
        }

        self.path.pop();
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = fields.next_key::<String>()? {
            if seen.contains(&name) {
                return Err(A::Error::custom(format!(
                    "the key {name:?} appears twice in one object"
                )));
            }

            self.path.push(Step::Field(name.clone()));
            if name.contains('\0') {
                *self.nul = Some(shown(self.path));
                return Err(A::Error::custom("U+0000"));
            }

            fields.next_value_seed(Walk {
                path: &mut *self.path,
                nul: &mut *self.nul,
                nul_in: self.nul_in,
            })?;

            self.path.pop();
            seen.insert(name);
        }

        Ok(())
    }
}
