//! The built-in patterns, which a policy names.

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};
use utoipa::ToSchema;

use super::finder::{Finder, known};
use super::numbers;

/// A built-in pattern. `iban`: an IBAN whose check digits are right; `card`: a card number of 13 to
/// 19 digits whose check digit is right; `phone`: a phone number with a country code or with
/// separators; `ip_address`: an IPv4 or IPv6 address; `api_key`: a key of a well-known provider,
/// recognised by its prefix; `bearer_token`: the token after `Bearer`, and any JSON web token;
/// `private_key`: a private key in PEM.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    ToSchema,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[schema(as = BuiltInPattern)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum BuiltIn {
    /// An IBAN whose check digits are right.
    Iban,
    /// A card number of 13 to 19 digits, spaced or not, whose check digit is right.
    Card,
    /// A phone number with a country code or with separators.
    Phone,
    /// An IPv4 or IPv6 address.
    IpAddress,
    /// A key of a well-known provider, recognised by its prefix.
    ApiKey,
    /// The token after `Bearer`, and any JSON web token.
    BearerToken,
    /// A private key in PEM.
    PrivateKey,
}

impl BuiltIn {
    pub fn finder(self) -> Finder {
        let source = match self {
            Self::Iban => return Finder::Numbers(numbers::ibans),
            Self::Card => return Finder::Numbers(numbers::cards),
            Self::Phone => concat!(
                r"\+[0-9](?:[ \u{a0}\u{202f}\u{200b}-\u{200d}\u{2060}\u{feff}().–‑-]{0,3}[0-9]){6,14}(?-u:\b)",
                // What is dialled in place of the plus sign; shorter ones may be numbers of items.
                r"|\(?(?-u:\b)(?:00|011)[ \u{a0}\u{202f}.–‑-]?[1-9](?:[ \u{a0}\u{202f}\u{200b}-\u{200d}\u{2060}\u{feff}().–‑-]{0,3}[0-9]){8,14}(?-u:\b)",
                // Five pairs, as in France.
                r"|(?-u:\b)0[1-9](?:[ \u{a0}\u{202f}.–‑-][0-9]{2}){4}(?-u:\b)",
                r"|(?-u:\b)8 ?\([0-9]{3}\) ?[0-9]{3}[ –‑-][0-9]{2}[ –‑-][0-9]{2}(?-u:\b)",
                r"|\(?(?-u:\b)[0-9]{3}\)?[ \u{a0}\u{202f}.–‑-][0-9]{3}[ \u{a0}\u{202f}.–‑-][0-9]{4}(?-u:\b)",
                // An area code with a leading zero has three digits or more: two could be a day.
                r"|\(?(?-u:\b)0[0-9]{2,5}\)?[ \u{a0}\u{202f}/–‑-]{1,3}[0-9](?:[ \u{a0}\u{202f}–‑-]?[0-9]){4,8}(?-u:\b)",
            ),
            Self::IpAddress => {
                r"(?-u:\b)[0-9]{1,3}(?:\.[0-9]{1,3}){3}(?-u:\b)|[0-9A-Fa-f:]*:[0-9A-Fa-f:.]+"
            }
            // Prefixes that no word ends with may also stand behind letters.
            Self::ApiKey => concat!(
                r"(?:(?-u:\b)|_)(?:sk-(?:ant-|proj-|or-)?[A-Za-z0-9_-]{16,}|(?:sk|pk|rk)_(?:live|test)_[A-Za-z0-9]{10,})",
                r"|AIza[A-Za-z0-9_-]{30,}|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}",
                r"|glpat-[A-Za-z0-9_-]{16,}|xox[abeoprs]-[A-Za-z0-9-]{10,}|(?:AKIA|ASIA)[A-Z0-9]{16}",
                r"|hf_[A-Za-z0-9]{20,}|npm_[A-Za-z0-9]{30,}|gsk_[A-Za-z0-9]{20,}|r8_[A-Za-z0-9]{20,}",
            ),
            Self::BearerToken => concat!(
                r"(?:(?-u:\b)|_)(?i:bearer)[*_`]{0,3}\s+[*_`]{0,3}[A-Za-z0-9._~+/-]{12,}=*",
                r"|(?:(?-u:\b)|_)eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",
                // The header and the payload of a token begin alike; no words behind letters do.
                r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",
            ),
            Self::PrivateKey => concat!(
                r"(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?",
                r"(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
            ),
        };

        let regex = known(source);
        match self {
            Self::Phone => Finder::Phones(regex),
            Self::IpAddress => Finder::Addresses(regex),
            Self::ApiKey | Self::BearerToken => Finder::Keys(regex),
            _ => Finder::Regex(regex),
        }
    }
}
