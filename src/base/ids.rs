//! Identifiers: the space that separates tenants, and the ids of rows.
//!
//! Ids are UUID version 7, so they sort by creation time; a newtype for each kind keeps them from
//! being confused.

use std::fmt;
use std::str::FromStr;

use memoir_text::hash::sha256_hex;
use serde::Serialize;

/// The wall between tenants: every row belongs to exactly one space.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Space(String);

impl Space {
    /// The valid space names, for messages.
    pub const RULE: &str = "1 to 64 characters from a-z, 0-9, _ and -";

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Space {
    fn default() -> Self {
        Self("default".to_owned())
    }
}

impl FromStr for Space {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let allowed =
            |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'_' || c == b'-';
        if (1..=64).contains(&text.len()) && text.bytes().all(allowed) {
            Ok(Self(text.to_owned()))
        } else {
            Err(())
        }
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A new UUID version 7 as text.
#[must_use]
pub fn new_uuid() -> String {
    #[expect(clippy::disallowed_methods, reason = "the only place that creates ids")]
    let id = uuid::Uuid::now_v7();
    // Version 7 starts with 48 bits of milliseconds.
    #[cfg(feature = "testing")]
    let id = uuid::Uuid::from_u128(
        id.as_u128()
            .wrapping_add(u128::from(super::clock::ahead()) << 80),
    );

    id.to_string()
}

/// A new span id of a W3C trace context: 16 hexadecimal digits.
#[must_use]
pub fn new_span_id() -> String {
    #[expect(clippy::disallowed_methods, reason = "the only place that creates ids")]
    let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
    // The standard forbids all zeros, which the upper half of a version 4 UUID cannot be.
    format!("{high:016x}")
}

/// 32 unpredictable bytes from the system's generator, for secrets.
#[must_use]
pub fn random_bytes() -> [u8; 32] {
    // A version 4 UUID has 122 random bits; a digest of three keeps 256.
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that creates random numbers"
    )]
    let parts = [
        uuid::Uuid::new_v4(),
        uuid::Uuid::new_v4(),
        uuid::Uuid::new_v4(),
    ];
    memoir_text::hash::sha256(&parts.map(uuid::Uuid::into_bytes).concat())
}

/// A number from 0 to just below 1, for jitter.
#[must_use]
pub fn random_fraction() -> f64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only place that creates random numbers"
    )]
    let (_, low) = uuid::Uuid::new_v4().as_u64_pair();
    // The format fixes the upper bits of the lower half; its lower 32 bits are enough.
    let [.., a, b, c, d] = low.to_be_bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / (f64::from(u32::MAX) + 1.0)
}

/// Defines an id type over a UUID in its canonical text form.
macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            #[must_use]
            pub fn new() -> Self {
                Self(new_uuid())
            }

            /// Wraps an id read from the database.
            #[must_use]
            pub fn from_stored(text: String) -> Self {
                Self(text)
            }

            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl FromStr for $name {
            type Err = uuid::Error;

            fn from_str(text: &str) -> Result<Self, uuid::Error> {
                Ok(Self(uuid::Uuid::parse_str(text)?.to_string()))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

uuid_id!(
    /// The id of a source.
    SourceId
);

impl SourceId {
    /// The id of a new source at a known path: the same for all concurrent ingestions of it.
    #[must_use]
    pub fn of_path(space: &Space, user_id: &str, path: &str) -> Self {
        let digest = sha256_hex(format!("{space}\n{user_id}\n{path}").as_bytes());
        let bytes = u128::from_str_radix(&digest[..32], 16)
            .unwrap_or_default()
            .to_be_bytes();
        Self(
            uuid::Builder::from_custom_bytes(bytes)
                .into_uuid()
                .to_string(),
        )
    }
}

uuid_id!(
    /// The id of a job.
    JobId
);

uuid_id!(
    /// The id of a query.
    QueryId
);

uuid_id!(
    /// The id of a thread.
    ThreadId
);

/// The namespace of the ids of threads with a name.
const THREAD_NAMES: uuid::Uuid = uuid::uuid!("5c0f5c5e-0d2b-5b0a-9d53-6d656d6f6972");

impl ThreadId {
    /// The id of a thread with a name: the same in every process, without a lookup.
    #[must_use]
    pub fn of_name(space: &Space, user_id: &str, name: &str) -> Self {
        // None of the three contains a line break.
        let text = format!("{space}\n{user_id}\n{name}");
        Self(uuid::Uuid::new_v5(&THREAD_NAMES, text.as_bytes()).to_string())
    }
}

uuid_id!(
    /// The id of a memory.
    MemoryId
);

uuid_id!(
    /// The id of a run of the workbench.
    RunId
);

uuid_id!(
    /// The id of an erasure.
    ErasureId
);

/// The id of a context: the first half names the end user, the second half is random.
#[must_use]
pub fn context_id(user_id: &str) -> String {
    let new = new_uuid();
    format!("{}{}", context_prefix(user_id), &new[18..])
}

/// How the ids of an end user's contexts begin.
#[must_use]
pub fn context_prefix(user_id: &str) -> String {
    let group = memory_group(user_id);
    format!("{}-{}-{}", &group[..8], &group[8..12], &group[12..16])
}

/// The group of an end user's memories in the search index, which is named like an id.
#[must_use]
pub fn memory_group(user_id: &str) -> String {
    sha256_hex(user_id.as_bytes())[..32].to_owned()
}

/// How the names of end users begin where it is noted whose text something holds.
pub const USER: &str = "user:";

/// The name of an end user where it is noted whose text something holds: a hash.
#[must_use]
pub fn use_of_user(user_id: &str) -> String {
    format!("{USER}{}", memory_group(user_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_invalid_space_names() {
        for good in ["default", "a", "team_7-b", &"x".repeat(64)] {
            assert!(good.parse::<Space>().is_ok(), "{good}");
        }
        for bad in ["", "Team", "a b", "a/b", "é", "a\0", &"x".repeat(65)] {
            assert!(bad.parse::<Space>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn ids_sort_by_age_and_have_one_spelling() {
        let (first, second) = (SourceId::new(), SourceId::new());
        assert!(first < second);
        assert_eq!(
            first.as_str().to_uppercase().parse::<SourceId>().unwrap(),
            first
        );
    }
}
