//! SHA-256, the only hash of the project: for keys, contents and idempotent bodies.

use sha2::{Digest, Sha256};

/// The digest itself.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

/// The digest as 64 lower-case hexadecimal digits.
#[must_use]
pub fn sha256_hex(bytes: &[u8]) -> String {
    hex(&sha256(bytes))
}

/// The first half of the SHA-256, in hexadecimal: shorter, and still different for different bytes.
/// For keys that nobody else sees.
#[must_use]
pub fn short_hash(bytes: &[u8]) -> String {
    hex(&sha256(bytes)[..16])
}

/// Lower-case hexadecimal digits of `bytes`.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Reads 64 hexadecimal digits as a digest.
#[must_use]
pub fn parse_sha256_hex(text: &str) -> Option<[u8; 32]> {
    let mut digest = [0; 32];
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }

    for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        let digits = std::str::from_utf8(pair).ok()?;
        *byte = u8::from_str_radix(digits, 16).ok()?;
    }

    Some(digest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_can_be_formatted_and_parsed() {
        let digest = sha256(b"memoir");
        assert_eq!(parse_sha256_hex(&hex(&digest)), Some(digest));
        assert_eq!(parse_sha256_hex("+1"), None);
        assert_eq!(parse_sha256_hex(&"é".repeat(32)), None);
    }
}
